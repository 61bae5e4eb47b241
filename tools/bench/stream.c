// SPDX-License-Identifier: GPL-2.0
/*
 * What a program gets from TCP: one stream, or round trips. The sender prints the time for a
 * message in us, of round trips a half, as perftest prints it. The receiver confirms the last
 * message of a stream, and the time until then counts.
 *
 *     stream serve ADDRESS PORT SIZE COUNT [pingpong]
 *     stream send ADDRESS PORT SIZE COUNT [pingpong]
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int put(int fd, const char *data, size_t size)
{
	while (size) {
		ssize_t some = send(fd, data, size, MSG_NOSIGNAL);

		if (some <= 0)
			return 1;
		data += some;
		size -= some;
	}
	return 0;
}

static int get(int fd, char *data, size_t size)
{
	return recv(fd, data, size, MSG_WAITALL) != (ssize_t)size;
}

int main(int argc, char **argv)
{
	int serves, echoes, fd, yes = 1, failed = 0;
	struct sockaddr_in address = { .sin_family = AF_INET };
	size_t size;
	double begin;
	char *data;
	long count;

	if (argc < 6 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1)
		return 2;
	serves = !strcmp(argv[1], "serve");
	echoes = argc > 6;
	address.sin_port = htons(atoi(argv[3]));
	size = strtoul(argv[4], NULL, 0);
	count = atol(argv[5]);
	data = calloc(1, size);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (!data || fd < 0 || !size || count < 1)
		return 1;
	if (serves) {
		if (bind(fd, (void *)&address, sizeof(address)) || listen(fd, 1))
			return 1;
		fd = accept(fd, NULL, NULL);
	} else if (connect(fd, (void *)&address, sizeof(address))) {
		return 1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	begin = now_us();
	for (long i = 0; i < count && !failed; i++) {
		if (serves)
			failed = get(fd, data, size) || (echoes && put(fd, data, size));
		else
			failed = put(fd, data, size) || (echoes && get(fd, data, size));
	}
	if (!failed && !echoes)
		failed = serves ? put(fd, data, 1) : get(fd, data, 1);
	if (failed)
		return 1;
	if (!serves)
		printf("%.3f\n", (now_us() - begin) / count / (echoes ? 2 : 1));
	close(fd);
	return 0;
}
