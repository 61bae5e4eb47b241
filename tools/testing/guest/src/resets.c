// SPDX-License-Identifier: GPL-2.0
/*
 * resets DEVICE GID-INDEX: queue pairs that are reset while they fail, by another thread. What
 * is used again afterwards must know nothing of the failure. Prints "ok NAME" or
 * "not ok NAME: why" per case.
 */
#include "loop.h"
#include "result.h"
#include <pthread.h>
#include <time.h>

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, GOOD = 777, SOME = 4, LEN = 1 << 16, ROUNDS = 400 };

static struct loop l;
static pthread_barrier_t start, end;
/* Which queue pair is reset, and after how many nanoseconds. */
static int victim;
static long delay;
static int over, refused;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int to_reset(int n)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	return ibv_modify_qp(l.qp[n], &a, IBV_QP_STATE);
}

static void *resetter(void *arg)
{
	for (;;) {
		pthread_barrier_wait(&start);
		if (over)
			return arg;
		for (long at = now() + delay; now() < at;)
			;
		refused += !!to_reset(victim);
		pthread_barrier_wait(&end);
	}
}

static int receive(struct ibv_sge *list, int n)
{
	struct ibv_recv_wr w = { .wr_id = GOOD, .sg_list = list, .num_sge = n }, *b;

	return ibv_post_recv(l.qp[1], &w, &b);
}

/* Writes, and then one of memory that is not ours; or one message for such memory. */
static int fail_some(void)
{
	struct ibv_sge s = { (uintptr_t)l.buf, LEN, l.mr->lkey }, bad = s;
	struct ibv_sge room[2] = { { (uintptr_t)l.buf + LEN, LEN - 64, l.mr->lkey }, { (uintptr_t)l.buf, 64, l.mr->lkey + 256 } };
	struct ibv_send_wr w[SOME], *b;

	bad.lkey += 256;
	if (victim) {
		w[0] = (struct ibv_send_wr){ .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND };
		receive(room, 2);
		return ibv_post_send(l.qp[0], w, &b);
	}
	for (int i = 0; i < SOME; i++) {
		w[i] = (struct ibv_send_wr){ .sg_list = i == SOME - 1 ? &bad : &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };
		w[i].wr.rdma.remote_addr = (uintptr_t)l.buf + LEN;
		w[i].wr.rdma.rkey = l.mr->rkey;
		w[i].next = i == SOME - 1 ? NULL : &w[i + 1];
	}
	return ibv_post_send(l.qp[0], w, &b);
}

/* Whether a message gets from the one to the other. */
static int works(void)
{
	struct ibv_sge s = { (uintptr_t)l.buf, 64, l.mr->lkey };
	struct ibv_send_wr w = { .wr_id = GOOD, .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *b;
	struct ibv_wc wc;
	int got = 0;

	for (int n = 0; n < 2; n++)
		while (ibv_poll_cq(l.cq[n], 1, &wc) == 1)
			;
	/* What is still on its way is not to be taken for what comes now. */
	loop_psn = (loop_psn + 4096) & 0xffffff;
	for (int n = 0; n < 2; n++)
		if (loop_to_rts(&l, n, l.qp[1 - n]->qp_num, ALL))
			return puts("it does not get to RTS"), 0;
	if (receive(&s, 1) || ibv_post_send(l.qp[0], &w, &b))
		return puts("nothing can be posted"), 0;
	for (long limit = now() + 30000000000L; got != 3 && now() < limit;)
		for (int n = 0; n < 2; n++)
			if (ibv_poll_cq(l.cq[n], 1, &wc) == 1) {
				/* It was posted while the reset was over but for the state: it is there. */
				if (n == 0 && wc.status == IBV_WC_LOC_PROT_ERR)
					return 1;
				if (wc.status || wc.wr_id != GOOD)
					return printf("end %d: %s\n", n, ibv_wc_status_str(wc.status)), 0;
				got |= 1 << n;
			}
	if (got != 3)
		printf("no completion at an end: %d\n", got);
	return got == 3;
}

static int rounds(void)
{
	long span = 0, took;
	int broken = 0;

	for (int i = 0; i < ROUNDS && broken < 3; i++) {
		/* Some rounds tell how long it takes. */
		delay = i < 4 ? 2000000 : span ? random() % span : 0;
		pthread_barrier_wait(&start);
		took = now();
		int late = fail_some();
		took = now() - took;
		if (i == 1 || (i < 4 && took < span))
			span = took;
		pthread_barrier_wait(&end);
		/* What was posted after the reset is to be forgotten, too. */
		if (late)
			to_reset(victim);
		usleep(200);
		to_reset(1 - victim);
		broken += !works();
		for (int n = 0; n < 2; n++)
			to_reset(n);
		loop_psn = (loop_psn + 4096) & 0xffffff;
		for (int n = 0; n < 2; n++)
			if (loop_to_rts(&l, n, l.qp[1 - n]->qp_num, ALL))
				loop_die("connect");
	}
	return broken;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3)
		return 2;
	loop_open(&l, argv[1], atoi(argv[2]));
	loop_connect(&l, ALL);
	pthread_barrier_init(&start, NULL, 2);
	pthread_barrier_init(&end, NULL, 2);
	if (pthread_create(&thread, NULL, resetter, NULL))
		loop_die("thread");
	result("a queue pair reset while a send fails is as new", rounds(), 0);
	victim = 1;
	result("a queue pair reset while a receive fails is as new", rounds(), 0);
	result("no reset is refused", refused, 0);
	over = 1;
	pthread_barrier_wait(&start);
	pthread_join(thread, NULL);
	loop_disconnect(&l);
	loop_close(&l);
	return ended();
}
