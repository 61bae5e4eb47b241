// SPDX-License-Identifier: GPL-2.0
/*
 * How long it takes to make and unmake verbs objects. Prints "R|CASE|TIME|us" lines, the
 * median of a few rounds of each.
 *
 *     rates DEVICE              those where the driver matters
 *     rates DEVICE core GID     more, where the core matters; GID is an index
 *     rates DEVICE hold COUNT   make so many queue pairs, say "held", wait for input
 *     rates DEVICE qp|cq|mr|pd|context COUNT
 *                               make and unmake so many, for a profile
 *     rates DEVICE doorbell|notify COUNT
 *                               so many calls, for a profile
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 5, LARGE = 16 << 20, HUGE = 1 << 30, PROCESSES = 8 };

static struct ibv_device *device;
static struct ibv_ah_attr path;

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char *memory;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int mr(size_t size)
{
	struct ibv_mr *m = ibv_reg_mr(pd, memory, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	return !m || ibv_dereg_mr(m);
}

static int mr_small(void)
{
	return mr(4096);
}

static int mr_large(void)
{
	return mr(LARGE);
}

static int mr_huge(void)
{
	return mr(HUGE);
}

static int make_pd(void)
{
	struct ibv_pd *p = ibv_alloc_pd(context);

	return !p || ibv_dealloc_pd(p);
}

static int make_ah(void)
{
	struct ibv_ah *a = ibv_create_ah(pd, &path);

	return !a || ibv_destroy_ah(a);
}

static int open_context(void)
{
	struct ibv_context *c = ibv_open_device(device);

	return !c || ibv_close_device(c);
}

static int make_cq(void)
{
	struct ibv_cq *c = ibv_create_cq(context, 128, NULL, NULL, 0);

	return !c || ibv_destroy_cq(c);
}

static int make_qp(void)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *q = ibv_create_qp(pd, &init);

	return !q || ibv_destroy_qp(q);
}

/*
 * What a library writes after it has filled a send queue in shared memory (POST_SEND without
 * requests). The driver refuses it, since the queue pair is not ready: what is left is the call.
 */
static int doorbell(void)
{
	static struct {
		uint32_t command;
		uint16_t in_words, out_words;
		uint64_t response;
		uint32_t qp_handle, wr_count, sge_count, wqe_size;
	} bell = { .command = 28, .in_words = sizeof(bell) / 4, .out_words = 1, .wqe_size = 128 };
	static uint32_t bad;

	if (!bell.response) {
		struct ibv_qp_init_attr init = {
			.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		};
		struct ibv_qp *q = ibv_create_qp(pd, &init);

		if (!q)
			return 1;
		bell.qp_handle = q->handle;
		bell.response = (uintptr_t)&bad;
	}
	return write(context->cmd_fd, &bell, sizeof(bell)) != -1 || errno != EINVAL;
}

static int notify(void)
{
	return ibv_req_notify_cq(cq, 0);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* OBJECTS in the environment, if not empty, is the one row to measure. */
static int wanted(const char *name)
{
	const char *only = getenv("OBJECTS");

	return !only || !*only || !strcmp(only, name);
}

static void rate(const char *name, int (*once)(void), int count)
{
	double round[ROUNDS];

	if (!wanted(name))
		return;
	for (int r = 0; r < ROUNDS; r++) {
		double begin = now_us();

		for (int i = 0; i < count; i++) {
			if (once()) {
				printf("R|%s|failed|us\n", name);
				return;
			}
		}
		round[r] = (now_us() - begin) / count;
	}
	qsort(round, ROUNDS, sizeof(round[0]), by_value);
	printf("R|%s|%.3f|us\n", name, round[ROUNDS / 2]);
}

/* So many processes at once, each with its own context: the time of one of the objects. */
static void rate_of_many(const char *name, int (*once)(void), int count)
{
	double begin = now_us();
	int status, bad = 0;

	if (!wanted(name))
		return;
	for (int i = 0; i < PROCESSES; i++) {
		if (fork())
			continue;
		context = ibv_open_device(device);
		pd = context ? ibv_alloc_pd(context) : NULL;
		cq = context ? ibv_create_cq(context, 128, NULL, NULL, 0) : NULL;
		bad = !pd || !cq;
		for (int n = 0; n < count && !bad; n++)
			bad = once();
		_exit(bad);
	}
	while (wait(&status) > 0)
		bad |= status;
	if (bad)
		printf("R|%s, %d processes|failed|us\n", name, PROCESSES);
	else
		printf("R|%s, %d processes|%.3f|us\n", name, PROCESSES, (now_us() - begin) / (count * PROCESSES));
}

static void of_the_core(int index)
{
	path = (struct ibv_ah_attr) { .is_global = 1, .port_num = 1, .grh = { .sgid_index = index, .hop_limit = 64 } };
	/* The peer's address is our own: its Ethernet address is known at once. */
	if (ibv_query_gid(context, 1, index, &path.grh.dgid)) {
		printf("R|AH create and destroy|failed|us\n");
		return;
	}
	rate("context open and close", open_context, 100);
	rate("PD create and destroy", make_pd, 1000);
	rate("AH create and destroy", make_ah, 1000);
	if (wanted("MR of 1 GiB, register and deregister")) {
		memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
		if (memory != MAP_FAILED) {
			rate("MR of 1 GiB, register and deregister", mr_huge, 1);
			munmap(memory, HUGE);
		}
	}
	fflush(stdout);
	memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	rate_of_many("PD create and destroy", make_pd, 500);
	fflush(stdout);
	rate_of_many("QP create and destroy", make_qp, 50);
	fflush(stdout);
	rate_of_many("MR of 4 KiB, register and deregister", mr_small, 200);
}

/* One kind of object, made and ended so many times, for a profile. */
static int repeat(const char *name, int count)
{
	static const struct {
		const char *name;
		int (*once)(void);
	} kinds[] = { { "qp", make_qp }, { "cq", make_cq }, { "mr", mr_small }, { "pd", make_pd },
		    { "context", open_context }, { "doorbell", doorbell }, { "notify", notify } };

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (strcmp(kinds[k].name, name))
			continue;
		while (count-- > 0)
			if (kinds[k].once())
				return 1;
		return 0;
	}
	fprintf(stderr, "rates: no such object: %s\n", name);
	return 1;
}

static int hold(int count)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	for (int i = 0; i < count; i++)
		if (!ibv_create_qp(pd, &init)) {
			perror("rates: a queue pair");
			return 1;
		}
	puts("held");
	fflush(stdout);
	getchar();
	return 0;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; argc > 1 && list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), argv[1]))
			device = *list;
	context = device ? ibv_open_device(device) : NULL;
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = context ? ibv_create_cq(context, 128, NULL, NULL, 0) : NULL;
	memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!pd || !cq || memory == MAP_FAILED) {
		fprintf(stderr, "rates: no device, or no memory\n");
		return 1;
	}
	if (argc > 3 && !strcmp(argv[2], "hold"))
		return hold(atoi(argv[3]));
	if (argc == 4 && strcmp(argv[2], "core"))
		return repeat(argv[2], atoi(argv[3]));
	rate("QP create and destroy", make_qp, 100);
	rate("CQ create and destroy", make_cq, 200);
	rate("MR of 4 KiB, register and deregister", mr_small, 1000);
	rate("MR of 16 MiB, register and deregister", mr_large, 5);
	if (argc > 3 && !strcmp(argv[2], "core"))
		of_the_core(atoi(argv[3]));
	return 0;
}
