// SPDX-License-Identifier: GPL-2.0
/*
 * races DEV1 GID1 DEV2 GID2 SECONDS SEED: everything at once, in the threads of one process.
 *   churn    queue pairs made, joined, used, changed and destroyed, in any order
 *   regions  memory registered, changed and deregistered while others use its keys
 *   steady   traffic over a shared receive queue, of which
 *   resizer  resizes the completion queues and the receive queue all the time
 * DEV1 and DEV2 may be one. Devices may go away: whatever a call answers is right. Only
 * one thing is wrong: a request of the steady traffic that never completes (exit 9).
 */
#include "loop.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum { KEYS = 8, LEN = 1 << 18, DEEP = 16, RECVS = 32 };

struct device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
	/* Numbers that any thread may use; what they name may be gone. */
	volatile uint32_t lkey[KEYS], rkey[KEYS];
};

struct pair {
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_srq *srq;
};

static struct device dev[2];
static unsigned char *buf;
static volatile int over;
static unsigned long made, regions, resizes, completions;

static uint32_t rnd(uint64_t *s)
{
	*s = *s * 6364136223846793005ull + 1442695040888963407ull;
	return *s >> 33;
}

static void open_device(struct device *d, const char *name, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(name, ibv_get_device_name(list[i])))
			d->ctx = ibv_open_device(list[i]);
	d->gid_index = gid_index;
	if (!d->ctx || ibv_query_gid(d->ctx, 1, gid_index, &d->gid) || !(d->pd = ibv_alloc_pd(d->ctx)))
		loop_die(name);
}

static int alive(struct device *d)
{
	struct ibv_pd *pd = ibv_alloc_pd(d->ctx);

	return pd && !ibv_dealloc_pd(pd);
}

static int to_rts(struct ibv_qp *qp, struct device *own, struct device *far, uint32_t dest)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = 15 };

	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1,
			.grh = { .dgid = far->gid, .sgid_index = own->gid_index, .hop_limit = 1 } } };
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 12, .retry_cnt = 6, .rnr_retry = 6, .max_rd_atomic = 4 };
	return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/* Destroys what there is of a pair, the second half first if asked to. */
static void unmake(struct pair *p, int backwards)
{
	for (int i = 0; i < 2; i++)
		if (p->qp[i ^ backwards])
			ibv_destroy_qp(p->qp[i ^ backwards]);
	if (p->srq)
		ibv_destroy_srq(p->srq);
	for (int i = 0; i < 2; i++)
		if (p->cq[i])
			ibv_destroy_cq(p->cq[i]);
}

static int make(struct pair *p, struct device *d[2], int with_srq)
{
	memset(p, 0, sizeof(*p));
	if (with_srq) {
		struct ibv_srq_init_attr sa = { .attr = { .max_wr = 64, .max_sge = 1 } };
		if (!(p->srq = ibv_create_srq(d[1]->pd, &sa)))
			return -1;
	}
	for (int i = 0; i < 2; i++) {
		if (!(p->cq[i] = ibv_create_cq(d[i]->ctx, 256, NULL, NULL, 0)))
			return -1;
		struct ibv_qp_init_attr ia = { .send_cq = p->cq[i], .recv_cq = p->cq[i], .qp_type = IBV_QPT_RC,
			.srq = i ? p->srq : NULL, .sq_sig_all = 1,
			.cap = { .max_send_wr = DEEP, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1 } };
		if (!(p->qp[i] = ibv_create_qp(d[i]->pd, &ia)))
			return -1;
	}
	return to_rts(p->qp[0], d[0], d[1], p->qp[1]->qp_num) || to_rts(p->qp[1], d[1], d[0], p->qp[0]->qp_num);
}

static int post(struct ibv_qp *qp, int opcode, uint32_t lkey, uint32_t rkey, uint32_t at, uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)buf + at, len, lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = opcode }, *bad;

	w.wr.rdma.remote_addr = (uintptr_t)buf + LEN;
	w.wr.rdma.rkey = rkey;
	return ibv_post_send(qp, &w, &bad);
}

static void *churn(void *arg)
{
	uint64_t s = (uintptr_t)arg;

	while (!over) {
		struct device *d[2] = { &dev[rnd(&s) % 2], &dev[rnd(&s) % 2] };
		struct pair p;
		struct ibv_wc wc[8];

		if (make(&p, d, rnd(&s) % 3 == 0)) {
			unmake(&p, 0);
			if (!alive(d[0]) || !alive(d[1]))
				break;
			usleep(1000);
			continue;
		}
		for (int i = 0; i < 8; i++) {
			struct ibv_sge sge = { (uintptr_t)buf, 65536, d[1]->lkey[rnd(&s) % KEYS] };
			struct ibv_recv_wr r = { .sg_list = &sge, .num_sge = 1 }, *bad;
			if (p.srq)
				ibv_post_srq_recv(p.srq, &r, &bad);
			else
				ibv_post_recv(p.qp[1], &r, &bad);
		}
		int last = rnd(&s) % 60;
		for (int i = 0; i < 60; i++) {
			int from = rnd(&s) % 8 == 0;
			post(p.qp[from], rnd(&s) % 5, d[from]->lkey[rnd(&s) % KEYS], d[!from]->rkey[rnd(&s) % KEYS],
			     rnd(&s) % 65536, rnd(&s) % 20000);
			if (rnd(&s) % 4 == 0)
				ibv_poll_cq(p.cq[rnd(&s) % 2], 8, wc);
			if (i == last) {
				static const int states[] = { IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_SQD, IBV_QPS_ERR };
				struct ibv_qp_attr a = { .qp_state = states[rnd(&s) % 4] };
				ibv_modify_qp(p.qp[rnd(&s) % 2], &a, IBV_QP_STATE);
			}
		}
		__sync_fetch_and_add(&made, 2);
		unmake(&p, rnd(&s) % 2);
	}
	return NULL;
}

static void *churn_regions(void *arg)
{
	uint64_t s = (uintptr_t)arg;
	struct ibv_mr *mr[2][KEYS] = { { NULL } };

	while (!over) {
		int d = rnd(&s) % 2, i = rnd(&s) % KEYS;
		int odp = rnd(&s) % 4 == 0 ? IBV_ACCESS_ON_DEMAND : 0;
		/* Mostly all rights: else nothing would ever succeed. */
		int access = rnd(&s) % 4 ? 15 : IBV_ACCESS_LOCAL_WRITE;

		if (mr[d][i] && rnd(&s) % 4 == 0) {
			rereg(dev[d].ctx, mr[d][i], IBV_REREG_MR_CHANGE_ACCESS, NULL, access);
		} else {
			if (mr[d][i] && ibv_dereg_mr(mr[d][i]) && !alive(&dev[d]))
				return NULL;
			mr[d][i] = ibv_reg_mr(dev[d].pd, buf, 2 * LEN, access | odp);
			if (mr[d][i]) {
				dev[d].lkey[i] = mr[d][i]->lkey;
				dev[d].rkey[i] = mr[d][i]->rkey;
			} else if (!alive(&dev[d])) {
				return NULL;
			}
		}
		if (rnd(&s) % 8 == 0)
			madvise(buf + rnd(&s) % 100 * 4096, 8 * 4096, MADV_DONTNEED);
		regions++;
		usleep(rnd(&s) % 500);
	}
	for (int d = 0; d < 2; d++)
		for (int i = 0; i < KEYS; i++)
			if (mr[d][i])
				ibv_dereg_mr(mr[d][i]);
	return NULL;
}

static struct pair steady;

static void *resizer(void *arg)
{
	uint64_t s = (uintptr_t)arg;

	while (!over) {
		struct ibv_srq_attr a = { .max_wr = RECVS + rnd(&s) % 300 };
		int failed = 0;

		for (int i = 0; i < 2; i++)
			failed += !!ibv_resize_cq(steady.cq[i], 128 + rnd(&s) % 300);
		failed += !!ibv_modify_srq(steady.srq, &a, IBV_SRQ_MAX_WR);
		resizes += 3 - failed;
		usleep(rnd(&s) % 2000);
	}
	return NULL;
}

static void *flow(void *arg)
{
	struct device *d[2] = { &dev[0], &dev[1] };
	struct ibv_mr *mr[2];
	int sent = 0, armed = 0, idle = 0;

	(void)arg;
	for (int i = 0; i < 2; i++)
		if (!(mr[i] = ibv_reg_mr(dev[i].pd, buf + 2 * LEN, LEN, IBV_ACCESS_LOCAL_WRITE)))
			return NULL;
	while (!over) {
		struct ibv_wc wc[8];
		int n, failed = 0, before = idle;

		while (armed < RECVS) {
			struct ibv_sge sge = { (uintptr_t)buf + 2 * LEN, 4096, mr[1]->lkey };
			struct ibv_recv_wr r = { .sg_list = &sge, .num_sge = 1 }, *bad;
			if (ibv_post_srq_recv(steady.srq, &r, &bad))
				break;
			armed++;
		}
		while (sent < DEEP && !post(steady.qp[0], IBV_WR_SEND, mr[0]->lkey, 0, 2 * LEN, 2000))
			sent++;
		for (int i = 0; i < 2; i++) {
			while ((n = ibv_poll_cq(steady.cq[i], 8, wc)) > 0) {
				*(i ? &armed : &sent) -= n;
				idle = 0;
				__sync_fetch_and_add(&completions, n);
				for (int k = 0; k < n; k++)
					failed |= wc[k].status != IBV_WC_SUCCESS;
			}
		}
		if (failed || sent < 0 || armed < 0) {
			/* The link was down, or the other device went: once more from the start. */
			struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };
			if (!alive(d[0]) || !alive(d[1]))
				break;
			for (int i = 0; i < 2; i++)
				if (ibv_modify_qp(steady.qp[i], &a, IBV_QP_STATE))
					return NULL;
			while (ibv_poll_cq(steady.cq[0], 8, wc) > 0)
				;
			while ((n = ibv_poll_cq(steady.cq[1], 8, wc)) > 0)
				armed -= n;
			sent = 0;
			if (to_rts(steady.qp[0], d[0], d[1], steady.qp[1]->qp_num) ||
			    to_rts(steady.qp[1], d[1], d[0], steady.qp[0]->qp_num))
				break;
		} else if (idle == before) {
			/* Ticks, not seconds: a stopped process has none. */
			usleep(1000);
			if (sent && ++idle > 30000 && alive(d[0]) && alive(d[1])) {
				fprintf(stderr, "races: %d requests never completed\n", sent);
				_exit(9);
			}
		}
	}
	return NULL;
}

/* Where the device went in the middle of a resize, librxe has no queue left and reads it. */
static void cut_off(int sig)
{
	(void)sig;
	dprintf(1, "queue pairs %lu regions %lu resizes %lu completions %lu\n", made, regions, resizes, completions);
	_exit(3);
}

int main(int argc, char **argv)
{
	void *(*const threads[])(void *) = { churn, churn, churn_regions, flow, resizer };
	enum { N = sizeof(threads) / sizeof(threads[0]) };
	pthread_t t[N];

	if (argc != 7) {
		fprintf(stderr, "races DEV1 GID1 DEV2 GID2 SECONDS SEED\n");
		return 1;
	}
	uint64_t seed = strtoull(argv[6], NULL, 0);

	signal(SIGSEGV, cut_off);
	signal(SIGBUS, cut_off);
	buf = mmap(NULL, 3 * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	open_device(&dev[0], argv[1], atoi(argv[2]));
	open_device(&dev[1], argv[3], atoi(argv[4]));
	struct device *d[2] = { &dev[0], &dev[1] };
	if (make(&steady, d, 1))
		loop_die("the steady pair");
	for (int i = 0; i < N; i++)
		pthread_create(&t[i], NULL, threads[i], (void *)(uintptr_t)(seed * 31 + i * 977 + 1));
	for (int i = 0; i < atoi(argv[5]) * 10 && !over; i++)
		usleep(100000);
	over = 1;
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	printf("queue pairs %lu regions %lu resizes %lu completions %lu\n", made, regions, resizes, completions);
	/* The rest is cleared away by the kernel half of the time. */
	if (seed & 1)
		unmake(&steady, 1);
	return 0;
}
