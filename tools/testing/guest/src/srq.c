// SPDX-License-Identifier: GPL-2.0
/*
 * srq DEVICE GID-INDEX: sizes and limits of shared receive queues, and that nothing
 * that waits in one is lost or changed when it is resized.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QKEY = 0x11111111, GRH = 40, TEXT = 16, ROOM = GRH + TEXT };

#define CHECK(x)                                                                                     \
	do {                                                                                         \
		if (!(x)) {                                                                          \
			printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno));                  \
			exit(1);                                                                     \
		}                                                                                    \
	} while (0)

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qp;
static struct ibv_ah *self;
static char buf[256][ROOM], out[TEXT];
static int posted, received;

static int make(uint32_t wr, uint32_t sge, uint32_t limit)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr, .max_sge = sge, .srq_limit = limit } };
	struct ibv_srq *made = ibv_create_srq(pd, &init);

	if (!made)
		return errno;
	if (init.attr.max_wr < wr)
		return EOVERFLOW;
	return ibv_destroy_srq(made);
}

static int resize(uint32_t size)
{
	struct ibv_srq_attr a = { .max_wr = size };

	return ibv_modify_srq(srq, &a, IBV_SRQ_MAX_WR);
}

static int limit(uint32_t limit)
{
	struct ibv_srq_attr a = { .srq_limit = limit };

	return ibv_modify_srq(srq, &a, IBV_SRQ_LIMIT);
}

static struct ibv_srq_attr now(void)
{
	struct ibv_srq_attr a;

	CHECK(!ibv_query_srq(srq, &a));
	return a;
}

static void post(int count)
{
	for (; count > 0; count--, posted++) {
		struct ibv_sge sge = { (uintptr_t)buf[posted % 256], ROOM, mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = posted, .sg_list = &sge, .num_sge = 1 }, *bad;

		CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
	}
}

static void next(struct ibv_wc *wc)
{
	struct timespec nap = { .tv_nsec = 1000000 };

	for (int i = 0; i < 30000; i++) {
		if (ibv_poll_cq(cq, 1, wc)) {
			CHECK(wc->status == IBV_WC_SUCCESS);
			return;
		}
		nanosleep(&nap, NULL);
	}
	CHECK(!"a completion comes");
}

/* So many messages to oneself, each into the oldest request. */
static void talk(int count)
{
	for (; count > 0; count--, received++) {
		struct ibv_sge sge = { (uintptr_t)out, TEXT, mr->lkey };
		struct ibv_send_wr wr = { .wr_id = -1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED, .wr.ud = { self, qp->qp_num, QKEY } }, *bad;

		memset(out, received, TEXT);
		CHECK(!ibv_post_send(qp, &wr, &bad));
		for (int i = 0; i < 2; i++) {
			struct ibv_wc wc;

			next(&wc);
			if (wc.opcode != IBV_WC_RECV)
				continue;
			CHECK(wc.wr_id == (uint64_t)received);
			CHECK(!memcmp(buf[received % 256] + GRH, out, TEXT));
		}
	}
}

static void event(void)
{
	struct ibv_async_event e;

	CHECK(!ibv_get_async_event(ctx, &e));
	CHECK(e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && e.element.srq == srq);
	ibv_ack_async_event(&e);
	CHECK(now().srq_limit == 0);
}

static void open_all(const char *name, int gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = gid_index, .hop_limit = 1 } };
	struct ibv_srq_init_attr si = { .attr = { .max_wr = 10, .max_sge = 2 } };
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(name, ibv_get_device_name(list[i])))
			ctx = ibv_open_device(list[i]);
	CHECK(ctx);
	CHECK((pd = ibv_alloc_pd(ctx)));
	CHECK((cq = ibv_create_cq(ctx, 64, NULL, NULL, 0)));
	CHECK((srq = ibv_create_srq(pd, &si)));
	CHECK(si.attr.max_wr == 15);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_UD, .send_cq = cq, .recv_cq = cq, .srq = srq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 } };

	CHECK((qp = ibv_create_qp(pd, &init)));
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	CHECK(!ibv_query_gid(ctx, 1, gid_index, &to.grh.dgid));
	CHECK((self = ibv_create_ah(pd, &to)));
	/* One region for both buffers, which are neighbours or nearly so. */
	char *from = (char *)buf < out ? (char *)buf : out, *end = (char *)buf < out ? out + TEXT : buf[256];

	CHECK((mr = ibv_reg_mr(pd, from, end - from, IBV_ACCESS_LOCAL_WRITE)));
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	open_all(argv[1], atoi(argv[2]));

	CHECK(make(0, 1, 0) == EINVAL && make((1 << 20) + 1, 1, 0) == EINVAL && make(1, 28, 0) == EINVAL);
	CHECK(!make(1, 0, 0) && !make(1, 27, 0) && !make(1, 1, 77));

	/* Goes round the ring, then is resized with entries on both sides of its end. */
	post(12);
	talk(11);
	post(12);
	CHECK(resize(0) == EINVAL && resize((1 << 20) + 1) == EINVAL);
	CHECK(resize(4) == EINVAL && now().max_wr == 15);
	CHECK(!resize(13) && now().max_wr == 15);
	talk(3);
	CHECK(!resize(100) && now().max_wr == 127 && now().max_sge == 2);
	talk(5);
	post(100);
	talk(100);
	CHECK(!resize(6) && now().max_wr == 7);
	talk(2);
	post(4);

	/* Limits: the event comes once, when fewer wait. */
	CHECK(limit(8) == EINVAL && !limit(7) && now().srq_limit == 7);
	CHECK(resize(6) == EINVAL && now().max_wr == 7);
	talk(1);
	event();
	post(1);
	CHECK(!limit(3));
	talk(5);
	event();
	talk(posted - received);

	CHECK(!ibv_destroy_ah(self) && !ibv_destroy_qp(qp) && !ibv_destroy_srq(srq));
	CHECK(!ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx));
	return 0;
}
