// SPDX-License-Identifier: GPL-2.0
/*
 * How long something takes, without a shell in the time. Prints "R|CASE|TIME|us", the least
 * of the rounds: the guest's clock leaps where all wait, so that more is chance. The first
 * round, which warms caches, does not count.
 *
 *     timed [-r ROUNDS] [-n TIMES] [-g DEVICE:COUNT] CASE COMMAND...
 *           the time of the command, divided by TIMES; and until port 1 of the device has
 *           COUNT GIDs, if that is asked for (there is one round then, and no other)
 *     timed -f FOLDER CASE
 *           the time to open, read and close each file in the folder
 *     timed -c DEVICE:0
 *           prints how many GIDs port 1 of the device has
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_GIDS = 1024, MOST_FILES = 4096 };

extern char **environ;

static struct ibv_gid_entry entries[MOST_GIDS];
static char *names[MOST_FILES];
static int file_count, refused;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int run(char **command)
{
	posix_spawn_file_actions_t quiet;
	int status = -1;
	pid_t child;

	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&child, command[0], &quiet, NULL, command, environ))
		return 1;
	waitpid(child, &status, 0);
	return status != 0;
}

static int list(const char *folder)
{
	struct dirent *entry;
	DIR *dir = opendir(folder);

	if (!dir || chdir(folder))
		return 1;
	while ((entry = readdir(dir)) && file_count < MOST_FILES)
		if (entry->d_name[0] != '.')
			names[file_count++] = strdup(entry->d_name);
	closedir(dir);
	return !file_count;
}

static int read_all(void)
{
	char text[4096];

	for (int i = 0; i < file_count; i++) {
		int fd = open(names[i], O_RDONLY);

		if (fd < 0)
			return 1;
		/* Of an empty entry there is no type: that is an answer too. */
		if (read(fd, text, sizeof(text)) < 0)
			refused++;
		close(fd);
	}
	return 0;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	for (; devices && *devices; devices++)
		if (!strcmp(ibv_get_device_name(*devices), name))
			return ibv_open_device(*devices);
	return NULL;
}

/* Waits for half a minute at most. */
static int until(struct ibv_context *context, long count)
{
	double end = now_us() + 30e6;

	while (ibv_query_gid_table(context, entries, MOST_GIDS, 0) != count) {
		if (now_us() > end)
			return 1;
		usleep(100);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int option, rounds = 9, times = 1, counts = 0, failed = 0;
	const char *folder = NULL, *gids = NULL;
	struct ibv_context *context = NULL;
	double least = 0;
	long count = 0;

	while ((option = getopt(argc, argv, "+r:n:g:f:c:")) != -1) {
		if (option == 'r')
			rounds = atoi(optarg);
		else if (option == 'n')
			times = atoi(optarg);
		else if (option == 'f')
			folder = optarg;
		else if (option == 'g' || option == 'c')
			gids = optarg, counts = option == 'c';
		else
			return 2;
	}
	if (gids) {
		char *name = strdup(gids), *colon = strchr(name, ':');

		if (!colon)
			return 2;
		*colon = 0;
		count = atol(colon + 1);
		context = open_device(name);
		if (!context)
			return 1;
		rounds = 0;
	}
	if (counts) {
		printf("%zd\n", ibv_query_gid_table(context, entries, MOST_GIDS, 0));
		return 0;
	}
	argv += optind;
	argc -= optind;
	if (argc < (folder ? 1 : 2) || times < 1)
		return 2;
	if (folder)
		failed = list(folder);
	for (int r = 0; r <= rounds && !failed; r++) {
		double begin = now_us();

		failed = folder ? read_all() : run(argv + 1);
		if (context && !failed)
			failed = until(context, count);
		begin = (now_us() - begin) / times;
		if (r < 2 || begin < least)
			least = begin;
	}
	if (failed) {
		printf("R|%s|failed|us\n", argv[0]);
		return 1;
	}
	printf("R|%s|%.3f|us\n", argv[0], least);
	return 0;
}
