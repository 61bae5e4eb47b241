// SPDX-License-Identifier: GPL-2.0
/*
 * errors DEVICE GID-INDEX: what goes wrong must go wrong as IBTA chapter 9 and 10
 * say: each row of the tables below is one mistake, with the status the two ends
 * must see. Prints "ok NAME" or "not ok NAME: why" per row.
 */
#include "loop.h"
#include "result.h"

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
enum { NONE = -1 };

struct mistake {
	const char *name;
	enum ibv_wr_opcode opcode;
	long offset;		/* of the remote address from the buffer's start */
	uint32_t length;
	int lkey_off, rkey_off;
	int access;		/* of the responder's queue pair */
	long recv;		/* length of a posted receive, or NONE */
	int sender, receiver;	/* expected status, or NONE for no completion */
};

static const struct mistake mistakes[] = {
	{ "nothing wrong: send", IBV_WR_SEND, 0, 100, 0, 0, ALL, 100, IBV_WC_SUCCESS, IBV_WC_SUCCESS },
	{ "nothing wrong: write", IBV_WR_RDMA_WRITE, 0, 5000, 0, 0, ALL, NONE, IBV_WC_SUCCESS, NONE },
	{ "nothing wrong: read", IBV_WR_RDMA_READ, 0, 5000, 0, 0, ALL, NONE, IBV_WC_SUCCESS, NONE },
	{ "nothing wrong: empty write, wild key", IBV_WR_RDMA_WRITE, 0, 0, 0, 77, ALL, NONE, IBV_WC_SUCCESS, NONE },
	{ "send longer than the receive", IBV_WR_SEND, 0, 5000, 0, 0, ALL, 4999, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR },
	{ "send with no receive posted", IBV_WR_SEND, 0, 100, 0, 0, ALL, NONE, IBV_WC_RNR_RETRY_EXC_ERR, NONE },
	{ "send from a wild lkey", IBV_WR_SEND, 0, 100, 1, 0, ALL, NONE, IBV_WC_LOC_PROT_ERR, NONE },
	{ "read into a wild lkey", IBV_WR_RDMA_READ, 0, 100, 1, 0, ALL, NONE, IBV_WC_LOC_PROT_ERR, NONE },
	{ "write to a wild rkey", IBV_WR_RDMA_WRITE, 0, 100, 0, 1, ALL, NONE, IBV_WC_REM_ACCESS_ERR, NONE },
	{ "read from a wild rkey", IBV_WR_RDMA_READ, 0, 100, 0, 1, ALL, NONE, IBV_WC_REM_ACCESS_ERR, NONE },
	{ "atomic with a wild rkey", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0, 1, ALL, NONE, IBV_WC_REM_ACCESS_ERR, NONE },
	{ "write one byte past the region", IBV_WR_RDMA_WRITE, (1 << 20) - 99, 100, 0, 0, ALL, NONE, IBV_WC_REM_ACCESS_ERR, NONE },
	{ "write before the region", IBV_WR_RDMA_WRITE, -1, 100, 0, 0, ALL, NONE, IBV_WC_REM_ACCESS_ERR, NONE },
	{ "read past the region", IBV_WR_RDMA_READ, 1 << 20, 1, 0, 0, ALL, NONE, IBV_WC_REM_ACCESS_ERR, NONE },
	{ "read that wraps the address space", IBV_WR_RDMA_READ, -1000000000000000L, 100, 0, 0, ALL, NONE, IBV_WC_REM_ACCESS_ERR, NONE },
	/* An unaligned atomic is not here: the user library refuses to post it. */
	{ "write refused by the queue pair", IBV_WR_RDMA_WRITE, 0, 100, 0, 0, IBV_ACCESS_REMOTE_READ, NONE, IBV_WC_REM_INV_REQ_ERR, NONE },
	{ "read refused by the queue pair", IBV_WR_RDMA_READ, 0, 100, 0, 0, IBV_ACCESS_REMOTE_WRITE, NONE, IBV_WC_REM_INV_REQ_ERR, NONE },
	{ "atomic refused by the queue pair", IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0, 0, IBV_ACCESS_REMOTE_WRITE, NONE, IBV_WC_REM_INV_REQ_ERR, NONE },
};

static int status_of(struct ibv_cq *cq, int tries)
{
	struct ibv_wc wc;
	int n = 0;

	while (tries-- && !(n = ibv_poll_cq(cq, 1, &wc)))
		usleep(1000);
	return n == 1 ? (int)wc.status : NONE;
}

static void provoke(struct loop *l, const struct mistake *m)
{
	loop_connect(l, m->access);
	if (m->recv != NONE) {
		struct ibv_sge s = { (uintptr_t)l->buf + (1 << 18), m->recv, l->mr->lkey };
		struct ibv_recv_wr r = { .sg_list = &s, .num_sge = 1 }, *b;
		if (ibv_post_recv(l->qp[1], &r, &b))
			loop_die("post_recv");
	}
	struct ibv_sge s = { (uintptr_t)l->buf + (1 << 19), m->length, l->mr->lkey + m->lkey_off * 0x100 };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = m->length ? 1 : 0, .opcode = m->opcode, .send_flags = IBV_SEND_SIGNALED }, *b;
	uint64_t remote = (uintptr_t)l->buf + m->offset;
	uint32_t rkey = l->mr->rkey + m->rkey_off * 0x100;

	if (m->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w.wr.atomic.remote_addr = remote;
		w.wr.atomic.rkey = rkey;
	} else {
		w.wr.rdma.remote_addr = remote;
		w.wr.rdma.rkey = rkey;
	}
	if (ibv_post_send(l->qp[0], &w, &b))
		loop_die("post_send");
	int got = status_of(l->cq[0], 30000);
	int other = m->receiver == NONE ? status_of(l->cq[1], 20) : status_of(l->cq[1], 30000);

	result_why(m->name, got == m->sender && other == m->receiver, got == m->sender ? "receiver's status " : "sender's status ",
		   got == m->sender ? other : got, got == m->sender ? m->receiver : m->sender);
	if (got != IBV_WC_SUCCESS) {
		/* After an error the queue pair is in the error state and flushes. */
		struct ibv_qp_attr a;
		struct ibv_qp_init_attr i;
		ibv_query_qp(l->qp[0], &a, IBV_QP_STATE, &i);
		if (a.qp_state != IBV_QPS_ERR)
			result_why("... and then the sender's state", 0, "state ", a.qp_state, IBV_QPS_ERR);
		if (!ibv_post_send(l->qp[0], &w, &b)) {
			got = status_of(l->cq[0], 30000);
			if (got != IBV_WC_WR_FLUSH_ERR)
				result_why("... and then a flush", 0, "status ", got, IBV_WC_WR_FLUSH_ERR);
		}
	}
	loop_disconnect(l);
}

/* A call that must be refused at once, with the status WANT. */
static void refused(const char *name, const void *made, int want)
{
	result(name, made ? 0 : errno, want);
	errno = 0;
}

static void refusals(struct loop *l)
{
	struct ibv_device_attr d;

	if (ibv_query_device(l->ctx, &d))
		loop_die("query device");
	errno = 0;
	refused("cq larger than max_cqe", ibv_create_cq(l->ctx, d.max_cqe + 1, NULL, NULL, 0), EINVAL);
	refused("cq on a wild vector", ibv_create_cq(l->ctx, 16, NULL, NULL, 4096), EINVAL);
	refused("mr on unmapped memory", ibv_reg_mr(l->pd, (void *)0x10000, 4096, ALL), EFAULT);
	refused("mr of a wrapping range", ibv_reg_mr(l->pd, l->buf, (size_t)-4096, ALL), EINVAL);
	refused("mr remote write without local", ibv_reg_mr(l->pd, l->buf, 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	struct ibv_cq *cq = ibv_create_cq(l->ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr base = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } }, ia;
	if (!cq)
		loop_die("create cq");
	errno = 0;
	ia = base, ia.cap.max_send_wr = d.max_qp_wr + 1;
	refused("qp with too many send entries", ibv_create_qp(l->pd, &ia), EINVAL);
	ia = base, ia.cap.max_recv_wr = 0x7fffffff;
	refused("qp with too many receive entries", ibv_create_qp(l->pd, &ia), EINVAL);
	ia = base, ia.cap.max_send_sge = d.max_sge + 1;
	refused("qp with too many elements", ibv_create_qp(l->pd, &ia), EINVAL);
	ia = base, ia.cap.max_inline_data = 1 << 20;
	refused("qp with too much inline data", ibv_create_qp(l->pd, &ia), EINVAL);
	struct ibv_qp *qp = ibv_create_qp(l->pd, &base);
	if (!qp)
		loop_die("create qp");
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	result("qp from RESET to RTS", ibv_modify_qp(qp, &a, IBV_QP_STATE), EINVAL);
	a.qp_state = IBV_QPS_INIT;
	a.port_num = 7;
	result("qp on a port that is not", ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       IBV_QP_ACCESS_FLAGS), EINVAL);
	a.port_num = 1;
	a.pkey_index = 999;
	result("qp with a wild pkey index", ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
	       IBV_QP_ACCESS_FLAGS), EINVAL);
	result("destroy of a cq in use", ibv_destroy_cq(cq), EBUSY);
	result("destroy of a pd in use", ibv_dealloc_pd(l->pd), EBUSY);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
}

int main(int argc, char **argv)
{
	struct loop l;

	if (argc != 3) {
		fprintf(stderr, "errors DEVICE GID-INDEX\n");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	loop_open(&l, argv[1], atoi(argv[2]));
	for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
		provoke(&l, &mistakes[i]);
	refusals(&l);
	loop_close(&l);
	return ended();
}
