// SPDX-License-Identifier: GPL-2.0
/*
 * datagrams DEVICE GID-INDEX DEVICE GID-INDEX [LOSS]: unreliable datagrams from the first device to
 * the second, which may be the same, with all data, headers and completions compared. Prints "ok
 * NAME" or "not ok NAME: why" for each case. With LOSS, packets may get lost on the way: what
 * arrives is compared.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "result.h"

enum { QKEY = 0x1234567, GRH = 40, ROOM = 4096, STRIDE = 2 * ROOM, RECVS = 256, SENDS = 256, MOST = 2048, HANDLES = 12 };

#define CHECK(x)                                                                                     \
	do {                                                                                         \
		if (!(x)) {                                                                          \
			printf("# line %d: %s: %s\n", __LINE__, #x, strerror(errno));                \
			return 0;                                                                    \
		}                                                                                    \
	} while (0)

struct node {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int gid_index;
};

struct end {
	struct node *node;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned char *buf, *out;
};

static struct node here, there;
static int loss;

static int open_node(struct node *n, const char *name, const char *gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	n->gid_index = atoi(gid_index);
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(name, ibv_get_device_name(list[i])))
			n->ctx = ibv_open_device(list[i]);
	CHECK(n->ctx);
	CHECK((n->pd = ibv_alloc_pd(n->ctx)));
	CHECK(!ibv_query_gid(n->ctx, 1, n->gid_index, &n->gid));
	return 1;
}

/* Where receive buffer i begins: at the start of a page, or anywhere, so that it crosses one. */
static unsigned char *place(struct end *e, size_t i)
{
	i %= RECVS;
	return e->buf + i * STRIDE + (i % 2 ? i * 16 % ROOM : 0);
}

static int post_recvs(struct end *e, int first, int count)
{
	for (int i = first; i < first + count; i++) {
		struct ibv_sge sge = { (uintptr_t)place(e, i), ROOM, e->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i % RECVS, .sg_list = &sge, .num_sge = 1 }, *bad_wr;

		CHECK(!ibv_post_recv(e->qp, &wr, &bad_wr));
	}
	return 1;
}

static int to_state(struct end *e, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state, .port_num = 1, .qkey = QKEY };
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_INIT)
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	if (state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN;
	CHECK(!ibv_modify_qp(e->qp, &a, mask));
	return 1;
}

/* A queue pair that can send and receive, with so many receives posted. */
static struct end *end_of(struct node *n, int cqes, int recvs)
{
	struct end *e = calloc(1, sizeof(*e));
	size_t len = (size_t)RECVS * STRIDE + ROOM;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = SENDS, .max_recv_wr = RECVS, .max_send_sge = 2, .max_recv_sge = 1,
			 .max_inline_data = 64 } };

	e->node = n;
	e->buf = aligned_alloc(4096, len);
	e->out = e->buf + (size_t)RECVS * STRIDE;
	memset(e->buf, 0, len);
	CHECK((e->channel = ibv_create_comp_channel(n->ctx)));
	CHECK((e->cq = ibv_create_cq(n->ctx, cqes, NULL, e->channel, 0)));
	init.send_cq = init.recv_cq = e->cq;
	CHECK((e->qp = ibv_create_qp(n->pd, &init)));
	CHECK((e->mr = ibv_reg_mr(n->pd, e->buf, len, IBV_ACCESS_LOCAL_WRITE)));
	CHECK(to_state(e, IBV_QPS_INIT) && to_state(e, IBV_QPS_RTR) && to_state(e, IBV_QPS_RTS));
	CHECK(post_recvs(e, 0, recvs));
	return e;
}

static int end_gone(struct end *e)
{
	CHECK(!ibv_destroy_qp(e->qp) && !ibv_destroy_cq(e->cq) && !ibv_destroy_comp_channel(e->channel) &&
	      !ibv_dereg_mr(e->mr));
	free(e->buf);
	free(e);
	return 1;
}

static struct ibv_ah *handle(struct node *from, struct node *to)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1,
		.grh = { .dgid = to->gid, .sgid_index = from->gid_index, .hop_limit = 9, .traffic_class = 0x20 } };

	return ibv_create_ah(from->pd, &attr);
}

/* The next completion within so many milliseconds. */
static int next(struct end *e, struct ibv_wc *wc, long ms)
{
	struct timespec nap = { .tv_nsec = 1000000 };

	for (; ms > 0; ms--) {
		if (ibv_poll_cq(e->cq, 1, wc) == 1)
			return 1;
		nanosleep(&nap, NULL);
	}
	return 0;
}

/* What message number n of a sender consists of. */
static unsigned char byte_of(unsigned n, unsigned i)
{
	return (n * 2654435761u >> 24) + i * 7;
}

static void fill(unsigned char *p, unsigned n, unsigned len)
{
	memcpy(p, &n, sizeof(n));
	for (unsigned i = sizeof(n); i < len; i++)
		p[i] = byte_of(n, i);
}

/* A send request for message n, whose data are at p. */
static void request(struct ibv_send_wr *wr, struct ibv_sge *sge, struct end *from, struct ibv_ah *ah, struct end *to,
		    unsigned char *p, unsigned n, unsigned len)
{
	fill(p, n, len);
	*sge = (struct ibv_sge){ (uintptr_t)p, len, from->mr->lkey };
	*wr = (struct ibv_send_wr){ .wr_id = n, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = sge, .num_sge = 1 };
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = to->qp->qp_num;
	wr->wr.ud.remote_qkey = QKEY;
}

static int send_one(struct end *from, struct ibv_ah *ah, struct end *to, unsigned n, unsigned len)
{
	struct ibv_send_wr wr, *bad_wr;
	struct ibv_sge sge;

	request(&wr, &sge, from, ah, to, from->out, n, len);
	/* The buffer is used again at once. */
	if (len <= 64)
		wr.send_flags |= IBV_SEND_INLINE;
	CHECK(!ibv_post_send(from->qp, &wr, &bad_wr));
	return 1;
}

static int sent(struct end *from, int count)
{
	struct ibv_wc wc;

	while (count--)
		CHECK(next(from, &wc, 30000) && wc.opcode == IBV_WC_SEND && wc.status == IBV_WC_SUCCESS);
	return 1;
}

/* Compares a received message, and says which it is. */
static int compare(struct end *e, struct ibv_wc *wc, struct end *from, unsigned *n)
{
	unsigned char *p = place(e, wc->wr_id);
	unsigned len = wc->byte_len - GRH;

	CHECK(wc->opcode == IBV_WC_RECV && wc->status == IBV_WC_SUCCESS && wc->byte_len >= GRH + sizeof(*n));
	CHECK((wc->wc_flags & IBV_WC_GRH) && (!from || wc->src_qp == from->qp->qp_num));
	memcpy(n, p + GRH, sizeof(*n));
	for (unsigned i = sizeof(*n); i < len; i++)
		CHECK(p[GRH + i] == byte_of(*n, i));
	return 1;
}

/* Message n, of so many bytes, is the next to arrive. */
static int hears(struct end *e, struct end *from, unsigned n, unsigned len)
{
	struct ibv_wc wc;
	unsigned got;

	CHECK(next(e, &wc, 30000));
	CHECK(compare(e, &wc, from, &got));
	if (got != n || wc.byte_len != GRH + len)
		printf("# message %u of %u bytes, not %u of %u\n", got, wc.byte_len - GRH, n, len);
	CHECK(got == n && wc.byte_len == GRH + len);
	CHECK(post_recvs(e, wc.wr_id, 1));
	return 1;
}

static int silent(struct end *e)
{
	struct ibv_wc wc;

	CHECK(!next(e, &wc, 60));
	return 1;
}

/* One list of requests of several lengths to many destinations, more handles than are remembered. */
static int lists(void)
{
	static struct ibv_send_wr wr[SENDS];
	static struct ibv_sge sge[SENDS];
	static unsigned char data[SENDS][2048];
	unsigned lens[] = { 64, 2048, 4, 500, 1999, 77 }, seen[3] = {};
	struct end *from = end_of(&here, 2 * SENDS, 0), *to[3];
	struct ibv_ah *ah[HANDLES];
	struct ibv_send_wr *bad_wr;
	struct ibv_mr *mr;

	CHECK(from && (mr = ibv_reg_mr(here.pd, data, sizeof(data), IBV_ACCESS_LOCAL_WRITE)));
	for (int i = 0; i < 3; i++)
		CHECK((to[i] = end_of(&there, RECVS, RECVS)));
	for (int i = 0; i < HANDLES; i++)
		CHECK((ah[i] = handle(&here, &there)));
	for (int round = 0; round < 4; round++) {
		/* All to one, by turns, in runs, and each by another handle. */
		for (int i = 0; i < SENDS / 2; i++) {
			int which = round == 0 ? 0 : round == 1 ? i % 3 : round == 2 ? i / 20 % 3 : i % 3;

			request(&wr[i], &sge[i], from, ah[round == 3 ? i % HANDLES : which], to[which], data[i], i, lens[i % 6]);
			sge[i].lkey = mr->lkey;
			wr[i].next = i + 1 < SENDS / 2 ? &wr[i + 1] : NULL;
		}
		CHECK(!ibv_post_send(from->qp, wr, &bad_wr));
		CHECK(sent(from, SENDS / 2));
		for (int k = 0; k < 3; k++) {
			int last[HANDLES], count = 0, due = 0;
			struct ibv_wc wc;

			memset(last, -1, sizeof(last));
			for (int i = 0; i < SENDS / 2; i++)
				due += wr[i].wr.ud.remote_qpn == to[k]->qp->qp_num;
			while (count < due && next(to[k], &wc, loss ? 100 : 30000)) {
				unsigned n;

				CHECK(compare(to[k], &wc, from, &n));
				CHECK(n < SENDS / 2 && wc.byte_len == GRH + lens[n % 6]);
				CHECK(wr[n].wr.ud.remote_qpn == to[k]->qp->qp_num);
				/* In order, by each handle. */
				int h = round == 3 ? n % HANDLES : 0;

				CHECK((int)n > last[h]);
				last[h] = n;
				CHECK(post_recvs(to[k], wc.wr_id, 1));
				count++;
			}
			if (!loss && count != due)
				printf("# round %d: %d messages, not %d\n", round, count, due);
			CHECK(loss || count == due);
			seen[k] += count;
			CHECK(silent(to[k]));
		}
	}
	CHECK(seen[0] && seen[1] && seen[2]);
	for (int i = 0; i < HANDLES; i++)
		CHECK(!ibv_destroy_ah(ah[i]));
	for (int i = 0; i < 3; i++)
		CHECK(end_gone(to[i]));
	CHECK(end_gone(from) && !ibv_dereg_mr(mr));
	return 1;
}

/* Requests posted one by one, faster than they are waited for. */
static int streams(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, 2 * RECVS, RECVS);
	struct ibv_ah *ah;
	unsigned n = 0;

	CHECK(from && to && (ah = handle(&here, &there)));
	for (int round = 0; round < 10; round++) {
		for (int i = 0; i < 100; i++)
			CHECK(send_one(from, ah, to, n + i, 4 + i % 60));
		for (int i = 0; i < 100; i++)
			CHECK(hears(to, from, n + i, 4 + i % 60));
		CHECK(sent(from, 100));
		n += 100;
	}
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* The receiver's copy of the network header. */
static int headers(void)
{
	struct end *from = end_of(&here, SENDS, 0), *to = end_of(&there, RECVS, RECVS);
	/* The core puts the route's limit in place of the handle's; 64 unless the system was told otherwise. */
	int v4 = !memcmp(here.gid.raw, (unsigned char[12]){ [10] = 0xff, [11] = 0xff }, 12);
	struct ibv_ah *ah;
	unsigned char *p;
	struct ibv_wc wc;
	unsigned n;

	CHECK(from && to && (ah = handle(&here, &there)));
	for (int i = 0; i < 20; i++) {
		unsigned len = 13 + i;
		unsigned total = (len + 3) / 4 * 4 + 12 + 8 + 4 + 8;

		CHECK(send_one(from, ah, to, i, len) && sent(from, 1) && next(to, &wc, 30000));
		CHECK(compare(to, &wc, from, &n) && n == (unsigned)i);
		p = place(to, wc.wr_id);
		if (v4) {
			p += 20;
			CHECK(p[0] == 0x45 && p[1] == 0x20 && p[9] == 17);
			CHECK(p[2] << 8 == ((total + 20) & 0xff00) && p[3] == ((total + 20) & 0xff));
			CHECK(!memcmp(p + 12, here.gid.raw + 12, 4) && !memcmp(p + 16, there.gid.raw + 12, 4));
			CHECK(p[8] == 64);
		} else {
			CHECK(p[0] >> 4 == 6 && p[6] == 17 && p[7] == 64 && (p[0] & 15) == 2);
			CHECK(p[4] << 8 == (total & 0xff00) && p[5] == (total & 0xff));
			CHECK(!memcmp(p + 8, here.gid.raw, 16) && !memcmp(p + 24, there.gid.raw, 16));
		}
	}
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* One list in which some requests must not arrive: another Q_Key, no such queue pair, one of another type. */
static int strangers(void)
{
	static struct ibv_send_wr wr[32];
	static struct ibv_sge sge[32];
	struct end *from = end_of(&here, SENDS, 0), *to = end_of(&there, RECVS, RECVS);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_send_wr *bad_wr;
	struct ibv_ah *ah;
	struct ibv_qp *rc;

	CHECK(from && to && (ah = handle(&here, &there)));
	init.send_cq = init.recv_cq = to->cq;
	CHECK((rc = ibv_create_qp(there.pd, &init)));
	for (int i = 0; i < 32; i++) {
		request(&wr[i], &sge[i], from, ah, to, from->out + i * 64, i, 64);
		wr[i].next = i < 31 ? &wr[i + 1] : NULL;
		if (i % 4 == 1)
			wr[i].wr.ud.remote_qkey = QKEY + 1;
		if (i % 8 == 2)
			wr[i].wr.ud.remote_qpn = 0xabcdef;
		if (i % 8 == 6)
			wr[i].wr.ud.remote_qpn = rc->qp_num;
	}
	CHECK(!ibv_post_send(from->qp, wr, &bad_wr) && sent(from, 32));
	for (int i = 0; i < 32; i++)
		if (i % 4 != 1 && i % 4 != 2)
			CHECK(hears(to, from, i, 64));
	CHECK(silent(to));
	CHECK(!ibv_destroy_qp(rc) && !ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/*
 * A handle that is destroyed as soon as requests that name it are posted, and one that gets its
 * number. The queue pairs behind the two differ, so that no message can be taken for another.
 */
static int handles(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, 2 * RECVS, RECVS);

	CHECK(from && to);
	for (unsigned n = 0; n < 400; n += 8) {
		struct ibv_ah *ah = handle(&here, &there);

		CHECK(ah);
		for (int i = 0; i < 8; i++)
			CHECK(send_one(from, ah, to, n + i, 32));
		CHECK(!ibv_destroy_ah(ah));
		for (int i = 0; i < 8; i++)
			CHECK(hears(to, from, n + i, 32));
		CHECK(sent(from, 8));
	}
	CHECK(end_gone(from) && end_gone(to));
	return 1;
}

/* Destroys a handle when told of it, after a while. */
struct destroyer {
	pthread_t thread;
	struct ibv_ah *_Atomic ah;
	_Atomic int over, failed;
};

static void *destroyer_run(void *arg)
{
	struct destroyer *d = arg;
	struct timespec start, now;
	struct ibv_ah *ah;
	long span = 0;

	while (!d->over) {
		ah = d->ah;
		if (!ah)
			continue;
		clock_gettime(CLOCK_MONOTONIC, &start);
		do
			clock_gettime(CLOCK_MONOTONIC, &now);
		while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < span);
		span = (span + 3700) % 100000;
		if (ibv_destroy_ah(ah))
			d->failed = 1;
		d->ah = NULL;
	}
	return NULL;
}

/* A handle that another thread destroys, at any time after requests that name it are posted. */
static int handles_of_another(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, 2 * RECVS, RECVS);
	struct destroyer d = { 0 };
	int ok = 1;

	CHECK(from && to && !pthread_create(&d.thread, NULL, destroyer_run, &d));
	for (unsigned n = 0; ok && n < 1920; n += 12) {
		struct ibv_ah *ah = handle(&here, &there);

		ok = !!ah;
		for (int i = 0; ok && i < 12; i++)
			ok = send_one(from, ah, to, n + i, 32);
		d.ah = ah;
		for (int i = 0; ok && i < 12; i++)
			ok = hears(to, from, n + i, 32);
		ok = ok && sent(from, 12);
		while (d.ah)
			;
	}
	d.over = 1;
	pthread_join(d.thread, NULL);
	CHECK(ok && !d.failed && end_gone(from) && end_gone(to));
	return 1;
}

/* A handle of another protection domain must not be used, whatever was used before. */
static int foreign_handle(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, RECVS, RECVS);
	struct node other = here;
	struct ibv_ah *ah, *foreign;
	struct ibv_wc wc;

	CHECK(from && to && (ah = handle(&here, &there)));
	CHECK((other.pd = ibv_alloc_pd(here.ctx)) && (foreign = handle(&other, &there)));
	CHECK(send_one(from, ah, to, 1, 32) && hears(to, from, 1, 32) && sent(from, 1));
	CHECK(send_one(from, foreign, to, 2, 32));
	CHECK(next(from, &wc, 30000) && wc.status == IBV_WC_LOC_QP_OP_ERR && wc.wr_id == 2);
	CHECK(silent(to));
	CHECK(!ibv_destroy_ah(foreign) && !ibv_destroy_ah(ah) && !ibv_dealloc_pd(other.pd) && end_gone(from) && end_gone(to));
	return 1;
}

/* What arrives without a receive request is lost; the rest is not. */
static int unready(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, RECVS, 5);
	struct ibv_ah *ah;

	CHECK(from && to && (ah = handle(&here, &there)));
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 20; i++)
			CHECK(send_one(from, ah, to, 20 * round + i, 32));
		CHECK(sent(from, 20));
		for (int i = 0; i < 5; i++) {
			struct ibv_wc wc;
			unsigned n;

			CHECK(next(to, &wc, 30000) && compare(to, &wc, from, &n) && n == (unsigned)(20 * round + i));
		}
		CHECK(silent(to));
		CHECK(post_recvs(to, 5 * round, 5));
	}
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* A receive request that is too short: the message is lost, the request serves the next one. */
static int too_long(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, RECVS, 0);
	struct ibv_sge sge = { (uintptr_t)to->buf, GRH + 100, to->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad_wr;
	struct ibv_ah *ah;
	struct ibv_wc wc;
	unsigned n;

	CHECK(from && to && (ah = handle(&here, &there)));
	CHECK(!ibv_post_recv(to->qp, &wr, &bad_wr));
	CHECK(send_one(from, ah, to, 1, 101) && sent(from, 1) && silent(to));
	CHECK(send_one(from, ah, to, 2, 100) && sent(from, 1));
	CHECK(next(to, &wc, 30000) && compare(to, &wc, from, &n) && n == 2 && wc.byte_len == GRH + 100);
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* Who is not ready to receive by its state hears nothing; who comes back does. */
static int states(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, RECVS, RECVS);
	struct ibv_ah *ah;
	struct ibv_wc wc;
	int flushed = 0;

	CHECK(from && to && (ah = handle(&here, &there)));
	CHECK(send_one(from, ah, to, 1, 32) && hears(to, from, 1, 32));
	CHECK(to_state(to, IBV_QPS_ERR));
	while (next(to, &wc, 200)) {
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
		flushed++;
	}
	CHECK(flushed == RECVS);
	CHECK(send_one(from, ah, to, 2, 32) && silent(to));
	CHECK(to_state(to, IBV_QPS_RESET) && to_state(to, IBV_QPS_INIT) && post_recvs(to, 0, RECVS));
	CHECK(send_one(from, ah, to, 3, 32) && silent(to));
	CHECK(to_state(to, IBV_QPS_RTR));
	CHECK(send_one(from, ah, to, 4, 32) && hears(to, from, 4, 32));
	CHECK(sent(from, 4));
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* The receiver's queue overflows: it and its queue pair fail, the sender does not. */
static int overflow(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, 3, RECVS);
	struct pollfd event = { .fd = there.ctx->async_fd, .events = POLLIN };
	struct ibv_async_event e;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_ah *ah;
	int errors = 0;

	CHECK(from && to && (ah = handle(&here, &there)));
	for (int i = 0; i < 60; i++)
		CHECK(send_one(from, ah, to, i, 32));
	CHECK(sent(from, 60));
	while (poll(&event, 1, errors ? 200 : 10000) == 1) {
		CHECK(!ibv_get_async_event(there.ctx, &e));
		errors += e.event_type == IBV_EVENT_CQ_ERR;
		ibv_ack_async_event(&e);
	}
	CHECK(errors == 1);
	CHECK(!ibv_query_qp(to->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
	CHECK(!ibv_query_qp(from->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* A sender whose buffer cannot be read fails alone, and what it posted before arrives. */
static int bad_buffer(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, RECVS, RECVS);
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_send_wr wr[3], *bad_wr;
	struct ibv_sge sge[3];
	struct ibv_ah *ah;
	struct ibv_wc wc;

	CHECK(from && to && (ah = handle(&here, &there)));
	for (int i = 0; i < 3; i++) {
		request(&wr[i], &sge[i], from, ah, to, from->out + 100 * i, i, 100);
		wr[i].next = i < 2 ? &wr[i + 1] : NULL;
	}
	sge[1].lkey ^= 0x5500;
	CHECK(!ibv_post_send(from->qp, wr, &bad_wr));
	CHECK(sent(from, 1));
	CHECK(next(from, &wc, 30000) && wc.status == IBV_WC_LOC_PROT_ERR && wc.wr_id == 1);
	CHECK(next(from, &wc, 30000) && wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
	CHECK(hears(to, from, 0, 100) && silent(to));
	/* The one that could not be read has taken no receive request. */
	CHECK(!ibv_query_qp(to->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* Moves a region to another protection domain and back, all the time. */
struct mover {
	pthread_t thread;
	struct ibv_mr *mr;
	struct ibv_pd *home, *other;
	_Atomic int over, failed;
};

/* The library has no way to ask soft-RoCE for it: REREG_MR as it is written (rdma/ib_user_verbs.h). */
static int move(struct ibv_mr *mr, struct ibv_pd *pd)
{
	uint32_t answer[2];
	struct {
		uint32_t command;
		uint16_t in_words, out_words;
		uint64_t response;
		uint32_t mr, flags;
		uint64_t start, length, iova;
		uint32_t pd, access;
	} request = { 11, sizeof(request) / 4, sizeof(answer) / 4, (uintptr_t)answer, mr->handle,
		      IBV_REREG_MR_CHANGE_PD, 0, 0, 0, pd->handle, 0 };

	return write(mr->context->cmd_fd, &request, sizeof(request)) == sizeof(request);
}

static void *mover_run(void *arg)
{
	struct mover *m = arg;

	while (!m->over)
		m->failed |= !move(m->mr, m->other) || !move(m->mr, m->home);
	return NULL;
}

/* A sender whose buffer can be read at times only, and may change while it is read: the receiver never fails. */
static int moved_region(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, RECVS, RECVS);
	struct ibv_qp_attr attr, again = { .qp_state = IBV_QPS_RTS };
	struct mover m = { .home = here.pd };
	struct ibv_qp_init_attr init;
	struct ibv_ah *ah;
	int ok = 1, arrived = 0;

	CHECK(from && to && (ah = handle(&here, &there)) && (m.other = ibv_alloc_pd(here.ctx)));
	m.mr = from->mr;
	CHECK(!pthread_create(&m.thread, NULL, mover_run, &m));
	for (unsigned n = 0; ok && n < 1000; n++) {
		struct ibv_send_wr wr, *bad_wr;
		struct ibv_sge sge;
		struct ibv_wc wc;

		request(&wr, &sge, from, ah, to, from->out, n, 100);
		ok = !ibv_post_send(from->qp, &wr, &bad_wr) && next(from, &wc, 30000);
		if (ok && wc.status == IBV_WC_SUCCESS) {
			ok = hears(to, from, n, 100);
			arrived++;
		} else if (ok) {
			ok = wc.status == IBV_WC_LOC_PROT_ERR && !ibv_modify_qp(from->qp, &again, IBV_QP_STATE);
		}
	}
	m.over = 1;
	pthread_join(m.thread, NULL);
	printf("# %d of 1000 arrived\n", arrived);
	CHECK(ok && !m.failed);
	CHECK(!ibv_query_qp(to->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
	CHECK(silent(to) && !ibv_destroy_ah(ah) && end_gone(from) && end_gone(to) && !ibv_dealloc_pd(m.other));
	return 1;
}

/* Two that answer each other, woken by events, and one that sends to itself. */
static int answers(void)
{
	struct end *one = end_of(&here, 2 * SENDS, RECVS), *two = end_of(&there, 2 * SENDS, RECVS);
	struct ibv_ah *to_two, *to_one, *to_self;

	CHECK(one && two && (to_two = handle(&here, &there)) && (to_one = handle(&there, &here)));
	for (unsigned n = 0; n < 200; n++) {
		CHECK(send_one(one, to_two, two, n, 16) && sent(one, 1) && hears(two, one, n, 16));
		CHECK(send_one(two, to_one, one, n, 16) && sent(two, 1) && hears(one, two, n, 16));
	}
	CHECK((to_self = handle(&here, &here)));
	for (unsigned n = 0; n < 50; n++) {
		struct ibv_wc wc;
		int recvs = 0, sends = 0;

		CHECK(send_one(one, to_self, one, n, 16));
		for (int i = 0; i < 2; i++) {
			CHECK(next(one, &wc, 30000) && wc.status == IBV_WC_SUCCESS);
			if (wc.opcode == IBV_WC_SEND) {
				sends++;
				continue;
			}
			unsigned got;

			CHECK(compare(one, &wc, one, &got) && got == n && post_recvs(one, wc.wr_id, 1));
			recvs++;
		}
		CHECK(recvs == 1 && sends == 1);
	}
	CHECK(!ibv_destroy_ah(to_two) && !ibv_destroy_ah(to_one) && !ibv_destroy_ah(to_self) && end_gone(one) && end_gone(two));
	return 1;
}

/* A receiver that sleeps until it is told of a message, of which there may be many by then. */
static int events(void)
{
	struct end *from = end_of(&here, 2 * SENDS, 0), *to = end_of(&there, 2 * RECVS, RECVS);
	struct ibv_ah *ah;
	unsigned n = 0;

	CHECK(from && to && (ah = handle(&here, &there)));
	for (int round = 0; round < 20; round++) {
		struct pollfd told = { .fd = to->channel->fd, .events = POLLIN };
		struct ibv_cq *cq;
		struct ibv_wc wc;
		void *context;

		CHECK(!ibv_req_notify_cq(to->cq, 0) && !ibv_poll_cq(to->cq, 1, &wc));
		CHECK(poll(&told, 1, 0) == 0);
		for (int i = 0; i < 40; i++)
			CHECK(send_one(from, ah, to, n + i, 32));
		CHECK(poll(&told, 1, 30000) == 1 && !ibv_get_cq_event(to->channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		for (int i = 0; i < 40; i++)
			CHECK(hears(to, from, n + i, 32));
		CHECK(sent(from, 40));
		/* No second event without a second request for one. */
		CHECK(poll(&told, 1, 0) == 0);
		n += 40;
	}
	CHECK(!ibv_destroy_ah(ah) && end_gone(from) && end_gone(to));
	return 1;
}

/* A sender of its own, that fills the receiver from another thread. */
struct crowd {
	pthread_t thread;
	struct end *from, *to;
	int failed;
};

static int crowd_sends(struct crowd *c)
{
	struct ibv_ah *ah;

	CHECK((ah = handle(&here, &there)));
	for (unsigned n = 0; n < MOST; n++) {
		CHECK(send_one(c->from, ah, c->to, n, 40));
		CHECK(sent(c->from, 1));
	}
	CHECK(!ibv_destroy_ah(ah));
	return 1;
}

static void *crowd_run(void *arg)
{
	struct crowd *c = arg;

	c->failed = !crowd_sends(c);
	return NULL;
}

/* Three at once to one receiver, which reads slowly: each is heard in its own order. */
static int crowds(void)
{
	struct end *to = end_of(&there, 2 * RECVS, RECVS);
	struct crowd c[3];
	long last[3] = { -1, -1, -1 };
	int heard = 0, failed = 0, ok = 1;
	struct ibv_wc wc;

	CHECK(to);
	for (int i = 0; i < 3; i++) {
		c[i] = (struct crowd){ .to = to };
		CHECK((c[i].from = end_of(&here, 2 * SENDS, 0)));
	}
	for (int i = 0; i < 3; i++)
		pthread_create(&c[i].thread, NULL, crowd_run, &c[i]);
	/* What finds no receive request is lost. */
	while (next(to, &wc, 500)) {
		unsigned n;
		int who = 0;

		while (who < 2 && c[who].from->qp->qp_num != wc.src_qp)
			who++;
		if (!compare(to, &wc, c[who].from, &n) || (long)n <= last[who] || !post_recvs(to, wc.wr_id, 1)) {
			printf("# message %u of sender %d after %ld\n", n, who, last[who]);
			ok = 0;
			break;
		}
		last[who] = n;
		heard++;
	}
	for (int i = 0; i < 3; i++) {
		pthread_join(c[i].thread, NULL);
		failed |= c[i].failed;
	}
	printf("# %d of %d heard\n", heard, 3 * MOST);
	CHECK(ok && !failed && heard > MOST / 2);
	for (int i = 0; i < 3; i++)
		CHECK(end_gone(c[i].from));
	CHECK(end_gone(to));
	return 1;
}

int main(int argc, char **argv)
{
	if (argc < 5 || !open_node(&here, argv[1], argv[2]) || !open_node(&there, argv[3], argv[4]))
		return 2;
	loss = argc > 5;
	result("lists of requests", lists(), 1);
	if (loss)
		return ended();
	result("requests one by one", streams(), 1);
	result("network headers", headers(), 1);
	result("another Q_Key, no queue pair, one of another type", strangers(), 1);
	result("a handle destroyed after the post", handles(), 1);
	result("a handle destroyed by another thread", handles_of_another(), 1);
	result("a handle of another domain", foreign_handle(), 1);
	result("no receive request", unready(), 1);
	result("a receive request that is too short", too_long(), 1);
	result("a receiver in every state", states(), 1);
	result("a completion queue overflows", overflow(), 1);
	result("a buffer that cannot be read", bad_buffer(), 1);
	result("a buffer that comes and goes", moved_region(), 1);
	result("answers, and sends to itself", answers(), 1);
	result("one event for many", events(), 1);
	result("three senders at once", crowds(), 1);
	return ended();
}
