// SPDX-License-Identifier: GPL-2.0
/*
 * rates DEVICE: how long it takes to make and unmake verbs objects. Prints
 * "R|CASE|TIME|us" lines, the median of a few rounds of each.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ROUNDS = 5, LARGE = 16 << 20 };

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

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void rate(const char *name, int (*once)(void), int count)
{
	double round[ROUNDS];

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

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; argc > 1 && list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), argv[1]))
			context = ibv_open_device(*list);
	pd = context ? ibv_alloc_pd(context) : NULL;
	cq = context ? ibv_create_cq(context, 128, NULL, NULL, 0) : NULL;
	memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!pd || !cq || memory == MAP_FAILED) {
		fprintf(stderr, "rates: no device, or no memory\n");
		return 1;
	}
	rate("QP create and destroy", make_qp, 20);
	rate("CQ create and destroy", make_cq, 40);
	rate("MR of 4 KiB, register and deregister", mr_small, 200);
	rate("MR of 16 MiB, register and deregister", mr_large, 5);
	return 0;
}
