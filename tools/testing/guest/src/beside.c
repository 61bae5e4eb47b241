// SPDX-License-Identifier: GPL-2.0
/*
 * beside DEVICE GID-INDEX: queue pairs that share one device, in every relation two of
 * them can have: one connected to itself, two that send to each other at once, an
 * unreliable pair, a receiver that is not ready, a neighbour that goes away. All
 * data are compared. Prints "ok NAME" or "not ok NAME: why" for each.
 */
#include "loop.h"
#include "result.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
enum { HALF = 1 << 19, QUARTER = 1 << 18 };

static void fill(unsigned char *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (seed = seed * 1103515245 + 12345) >> 16;
}

static int wait_for(struct ibv_cq *cq, enum ibv_wc_status want)
{
	struct ibv_wc wc;
	int n = 0;

	for (int tries = 0; tries < 120000 && !(n = ibv_poll_cq(cq, 1, &wc)); tries++)
		usleep(500);
	if (n == 1 && wc.status == want)
		return 1;
	printf("# %d completions, status %d, not %d\n", n, n == 1 ? (int)wc.status : -1, want);
	return 0;
}

static int post_recv(struct loop *l, int n, size_t at, size_t len)
{
	struct ibv_sge s = { (uintptr_t)l->buf + at, len, l->mr->lkey };
	struct ibv_recv_wr r = { .sg_list = &s, .num_sge = 1 }, *b;

	return !ibv_post_recv(l->qp[n], &r, &b);
}

/* Two elements, so that a message is no one piece of memory. */
static int post(struct loop *l, int n, enum ibv_wr_opcode opcode, size_t at, size_t len, size_t to)
{
	struct ibv_sge s[2] = { { (uintptr_t)l->buf + at, len / 3, l->mr->lkey },
				{ (uintptr_t)l->buf + at + len / 3, len - len / 3, l->mr->lkey } };
	struct ibv_send_wr w = { .sg_list = s, .num_sge = 2, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *b;

	w.wr.rdma.remote_addr = (uintptr_t)l->buf + to;
	w.wr.rdma.rkey = l->mr->rkey;
	return !ibv_post_send(l->qp[n], &w, &b);
}

/* Creates queue pairs 0 to count - 1 of a type, one queue for all completions each. */
static void make(struct loop *l, int count, enum ibv_qp_type type)
{
	for (int n = 0; n < count; n++) {
		l->cq[n] = ibv_create_cq(l->ctx, 64, NULL, NULL, 0);
		struct ibv_qp_init_attr ia = { .send_cq = l->cq[n], .recv_cq = l->cq[n], .qp_type = type,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 2, .max_recv_sge = 2 } };
		if (!l->cq[n] || !(l->qp[n] = ibv_create_qp(l->pd, &ia)))
			loop_die("create");
	}
}

static void unmake(struct loop *l, int count)
{
	for (int n = 0; n < count; n++)
		if (ibv_destroy_qp(l->qp[n]) || ibv_destroy_cq(l->cq[n]))
			loop_die("destroy");
}

static int moved(struct loop *l, enum ibv_wr_opcode opcode, size_t len, int from, int to)
{
	size_t at = from * HALF, there = to * HALF + QUARTER + 5;
	int reads = opcode == IBV_WR_RDMA_READ;

	fill(l->buf + (reads ? there : at), len, len + opcode);
	memset(l->buf + (reads ? at : there), 0, len);
	if (opcode == IBV_WR_SEND && !post_recv(l, to, there, len))
		return 0;
	if (!post(l, from, opcode, at, len, there) || !wait_for(l->cq[from], IBV_WC_SUCCESS))
		return 0;
	if (opcode == IBV_WR_SEND && !wait_for(l->cq[to], IBV_WC_SUCCESS))
		return 0;
	if (memcmp(l->buf + at, l->buf + there, len))
		return printf("# opcode %d, %zu bytes: wrong data\n", opcode, len), 0;
	return 1;
}

static int all_sizes(struct loop *l, int from, int to)
{
	static const size_t sizes[] = { 3, 8, 255, 1023, 1024, 1025, 4096, 4097, 65535, 65536, 65537, 131072, 200001 };
	int ok = 1;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ok &= moved(l, IBV_WR_SEND, sizes[i], from, to);
		ok &= moved(l, IBV_WR_RDMA_WRITE, sizes[i], from, to);
		ok &= moved(l, IBV_WR_RDMA_READ, sizes[i], from, to);
	}
	return ok;
}

static int atomics(struct loop *l, int n)
{
	uint64_t *cell = (uint64_t *)(l->buf + HALF), *found = (uint64_t *)l->buf;
	struct ibv_sge s = { (uintptr_t)found, 8, l->mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED }, *b;

	w.wr.atomic.remote_addr = (uintptr_t)cell;
	w.wr.atomic.rkey = l->mr->rkey;
	w.wr.atomic.compare_add = 5;
	*cell = 37;
	if (ibv_post_send(l->qp[n], &w, &b) || !wait_for(l->cq[n], IBV_WC_SUCCESS) || *found != 37 || *cell != 42)
		return 0;
	w.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	w.wr.atomic.compare_add = 42;
	w.wr.atomic.swap = 1;
	return !ibv_post_send(l->qp[n], &w, &b) && wait_for(l->cq[n], IBV_WC_SUCCESS) && *found == 42 && *cell == 1;
}

static int alone(struct loop *l)
{
	make(l, 1, IBV_QPT_RC);
	int ok = !loop_to_rts(l, 0, l->qp[0]->qp_num, ALL) && all_sizes(l, 0, 0) && atomics(l, 0);
	unmake(l, 1);
	return ok;
}

/* Both send and read as much as their queues take, then all is compared. */
static int crossing(struct loop *l)
{
	enum { ROUNDS = 200, LEN = 3 * 4096 + 7 };
	int ok = 1;

	loop_connect(l, ALL);
	for (int round = 0; ok && round < ROUNDS; round++) {
		for (int n = 0; n < 2; n++) {
			fill(l->buf + n * HALF, 8 * LEN, round * 2 + n);
			memset(l->buf + n * HALF + QUARTER, 0, 8 * LEN);
		}
		for (int i = 0; i < 4; i++)
			for (int n = 0; n < 2; n++)
				ok &= post_recv(l, n, n * HALF + QUARTER + i * LEN, LEN);
		for (int i = 0; i < 4; i++)
			for (int n = 0; n < 2; n++) {
				size_t mine = n * HALF + i * LEN, theirs = (1 - n) * HALF + QUARTER;

				ok &= post(l, n, IBV_WR_SEND, mine, LEN, 0);
				ok &= post(l, n, IBV_WR_RDMA_WRITE, mine + 4 * LEN, LEN, theirs + (4 + i) * LEN);
			}
		for (int i = 0; ok && i < 12; i++)
			for (int n = 0; n < 2; n++)
				ok &= wait_for(l->cq[n], IBV_WC_SUCCESS);
		for (int n = 0; n < 2; n++)
			ok &= !memcmp(l->buf + n * HALF, l->buf + (1 - n) * HALF + QUARTER, 8 * LEN);
	}
	loop_disconnect(l);
	return ok;
}

static int unready(struct loop *l)
{
	make(l, 2, IBV_QPT_RC);
	/* However late the receive comes: a retry takes microseconds. */
	loop_rnr_retry = 7;
	int ok = !loop_to_rts(l, 0, l->qp[1]->qp_num, ALL) && !loop_to_rts(l, 1, l->qp[0]->qp_num, ALL);

	loop_rnr_retry = 2;
	fill(l->buf, 100000, 1);
	memset(l->buf + HALF, 0, 100000);
	ok &= post(l, 0, IBV_WR_SEND, 0, 100000, 0) && post_recv(l, 1, HALF, 100000);
	ok &= wait_for(l->cq[1], IBV_WC_SUCCESS) && wait_for(l->cq[0], IBV_WC_SUCCESS);
	ok &= !memcmp(l->buf, l->buf + HALF, 100000);
	unmake(l, 2);
	return ok;
}

static int to_uc(struct loop *l, int n, uint32_t dest)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	if (ibv_modify_qp(l->qp[n], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest,
		.ah_attr = { .is_global = 1, .port_num = 1,
			.grh = { .dgid = l->gid, .sgid_index = l->gid_index, .hop_limit = 1 } } };
	if (ibv_modify_qp(l->qp[n], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	return ibv_modify_qp(l->qp[n], &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

static int unreliable(struct loop *l)
{
	make(l, 2, IBV_QPT_UC);
	int ok = !to_uc(l, 0, l->qp[1]->qp_num) && !to_uc(l, 1, l->qp[0]->qp_num);
	for (size_t len = 1; ok && len < 200000; len = len * 5 + 1) {
		ok &= moved(l, IBV_WR_SEND, len, 0, 1);
		ok &= moved(l, IBV_WR_RDMA_WRITE, len, 1, 0);
	}
	unmake(l, 2);
	return ok;
}

/* Posts COUNT requests of LEN bytes each by one doorbell: from the start of the buffer, to its other half. */
static int post_list(struct loop *l, int n, enum ibv_wr_opcode opcode, int count, size_t len)
{
	struct ibv_sge s[16];
	struct ibv_send_wr w[16], *b;

	memset(w, 0, sizeof(w));
	for (int i = 0; i < count; i++) {
		s[i] = (struct ibv_sge){ (uintptr_t)l->buf + i * len, len, l->mr->lkey };
		w[i].sg_list = &s[i];
		w[i].num_sge = 1;
		w[i].opcode = opcode;
		w[i].send_flags = IBV_SEND_SIGNALED;
		w[i].wr.rdma.remote_addr = (uintptr_t)l->buf + HALF + i * len;
		w[i].wr.rdma.rkey = l->mr->rkey;
		w[i].next = i + 1 < count ? &w[i + 1] : NULL;
	}
	return !ibv_post_send(l->qp[n], w, &b);
}

/* More reads by one doorbell than the neighbour keeps at a time. */
static int many_reads(struct loop *l)
{
	enum { COUNT = 8, LEN = 3000 };

	make(l, 2, IBV_QPT_RC);
	int ok = !loop_to_rts(l, 0, l->qp[1]->qp_num, ALL);

	loop_depth = 1;
	ok &= !loop_to_rts(l, 1, l->qp[0]->qp_num, ALL);
	loop_depth = 4;
	fill(l->buf + HALF, COUNT * LEN, 7);
	memset(l->buf, 0, COUNT * LEN);
	ok &= post_list(l, 0, IBV_WR_RDMA_READ, COUNT, LEN);
	for (int i = 0; ok && i < COUNT; i++)
		ok &= wait_for(l->cq[0], IBV_WC_SUCCESS);
	ok &= !memcmp(l->buf, l->buf + HALF, COUNT * LEN);
	unmake(l, 2);
	return ok;
}

/* As many messages by one doorbell as receives are posted, then more: only those beyond are lost. */
static int unreliable_lists(struct loop *l)
{
	enum { COUNT = 12, FEW = 5, LEN = 700 };
	struct ibv_wc wc;

	make(l, 2, IBV_QPT_UC);
	int ok = !to_uc(l, 0, l->qp[1]->qp_num) && !to_uc(l, 1, l->qp[0]->qp_num);
	for (int round = 0; ok && round < 50; round++) {
		int receives = round % 2 ? FEW : COUNT;

		fill(l->buf, COUNT * LEN, round);
		memset(l->buf + HALF, 0, COUNT * LEN);
		for (int i = 0; i < receives; i++)
			ok &= post_recv(l, 1, HALF + i * LEN, LEN);
		ok &= post_list(l, 0, IBV_WR_SEND, COUNT, LEN);
		for (int i = 0; ok && i < receives; i++)
			ok &= wait_for(l->cq[1], IBV_WC_SUCCESS);
		for (int i = 0; ok && i < COUNT; i++)
			ok &= wait_for(l->cq[0], IBV_WC_SUCCESS);
		ok &= !memcmp(l->buf, l->buf + HALF, receives * LEN) && !ibv_poll_cq(l->cq[1], 1, &wc);
	}
	unmake(l, 2);
	return ok;
}

/* The neighbour is destroyed, then it is there but connected elsewhere. */
static int gone(struct loop *l)
{
	loop_connect(l, ALL);
	int ok = moved(l, IBV_WR_RDMA_WRITE, 100000, 0, 1);
	if (ibv_destroy_qp(l->qp[1]))
		loop_die("destroy");
	ok &= post(l, 0, IBV_WR_RDMA_WRITE, 0, 100000, HALF) && wait_for(l->cq[0], IBV_WC_RETRY_EXC_ERR);
	if (ibv_destroy_qp(l->qp[0]) || ibv_destroy_cq(l->cq[0]) || ibv_destroy_cq(l->cq[1]))
		loop_die("destroy");
	make(l, 2, IBV_QPT_RC);
	ok &= !loop_to_rts(l, 0, l->qp[1]->qp_num, ALL) && !loop_to_rts(l, 1, 0x123456, ALL);
	ok &= post(l, 0, IBV_WR_RDMA_WRITE, 0, 10000, HALF) && wait_for(l->cq[0], IBV_WC_RETRY_EXC_ERR);
	unmake(l, 2);
	return ok;
}

int main(int argc, char **argv)
{
	struct loop l;

	if (argc != 3) {
		fprintf(stderr, "beside DEVICE GID-INDEX\n");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	loop_open(&l, argv[1], atoi(argv[2]));
	result("a queue pair connected to itself", alone(&l), 1);
	make(&l, 2, IBV_QPT_RC);
	int ok = !loop_to_rts(&l, 0, l.qp[1]->qp_num, ALL) && !loop_to_rts(&l, 1, l.qp[0]->qp_num, ALL);
	result("two of them, all sizes", ok && all_sizes(&l, 0, 1) && all_sizes(&l, 1, 0) && atomics(&l, 0), 1);
	unmake(&l, 2);
	result("both ways at once", crossing(&l), 1);
	result("a receiver that is not ready", unready(&l), 1);
	result("unreliable connections", unreliable(&l), 1);
	result("more reads at once than a neighbour keeps", many_reads(&l), 1);
	result("lists of messages, unreliable", unreliable_lists(&l), 1);
	result("a neighbour that goes away", gone(&l), 1);
	loop_close(&l);
	return ended();
}
