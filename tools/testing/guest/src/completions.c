// SPDX-License-Identifier: GPL-2.0
/*
 * completions DEVICE GID-INDEX: completion queues that are resized, overrun or waited
 * for, and send queues that are drained. Prints "ok NAME" or "not ok NAME: why" per case.
 */
#include "loop.h"
#include "result.h"
#include <fcntl.h>
#include <poll.h>

enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static uint64_t posted, seen, wrong;

static int post(struct loop *l, int n, enum ibv_wr_opcode opcode, int flags)
{
	struct ibv_sge s = { (uintptr_t)l->buf, 64, l->mr->lkey };
	struct ibv_send_wr w = { .wr_id = posted, .sg_list = &s, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED | flags }, *b;

	w.wr.rdma.remote_addr = (uintptr_t)l->buf + 4096;
	w.wr.rdma.rkey = l->mr->rkey;
	int error = ibv_post_send(l->qp[n], &w, &b);
	posted += !error;
	return error;
}

static void receive(struct loop *l, int n)
{
	struct ibv_sge s = { (uintptr_t)l->buf + 8192, 64, l->mr->lkey };
	struct ibv_recv_wr w = { .wr_id = 77, .sg_list = &s, .num_sge = 1 }, *b;

	if (ibv_post_recv(l->qp[n], &w, &b))
		loop_die("post_recv");
}

static int take(struct loop *l, int most)
{
	struct ibv_wc wc;
	int n = 0;

	while (n < most && ibv_poll_cq(l->cq[0], 1, &wc) == 1) {
		wrong += wc.wr_id != seen || wc.status;
		seen++;
		n++;
	}
	return n;
}

static void take_all(struct loop *l)
{
	for (int i = 0; seen < posted && i < 150000; i++, usleep(200))
		take(l, 1000);
}

static void resized(struct loop *l)
{
	unsigned r = 1;

	loop_connect(l, ALL);
	posted = seen = wrong = 0;
	for (int i = 0; i < 12; i++)
		post(l, 0, IBV_WR_RDMA_WRITE, 0);
	/* Time to complete: a poll would take them out of the queue, where they are to wait. */
	usleep(2000000);
	result("resize to less than waits", ibv_resize_cq(l->cq[0], 3), EINVAL);
	result("resize to more", ibv_resize_cq(l->cq[0], 300), 0);
	result("what waited is there", take(l, 1000), 12);
	result("... in order", wrong, 0);
	int refused = 0;
	for (int i = 0; i < 400; i++) {
		for (int k = (r = r * 1103515245 + 12345) >> 20 & 7; k >= 0 && posted - seen < 15; k--)
			post(l, 0, IBV_WR_RDMA_WRITE, 0);
		refused += !!ibv_resize_cq(l->cq[0], 16 + (r >> 8 & 0xff));
		take(l, r >> 16 & 7);
	}
	take_all(l);
	result("resize under traffic: all is there", posted - seen, 0);
	result("... in order", wrong, 0);
	result("... and no resize refused", refused, 0);
	loop_disconnect(l);
}

static int event(struct loop *l, int limit)
{
	struct pollfd p = { .fd = l->ctx->async_fd, .events = POLLIN };
	struct ibv_async_event e;

	if (poll(&p, 1, limit) != 1 || ibv_get_async_event(l->ctx, &e))
		return -1;
	ibv_ack_async_event(&e);
	return e.event_type;
}

static int state(struct ibv_qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr i;

	return ibv_query_qp(qp, &a, IBV_QP_STATE, &i) ? -1 : (int)a.qp_state;
}

static void overrun(struct loop *l)
{
	loop_connect(l, ALL);
	struct ibv_cq *small = ibv_create_cq(l->ctx, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr ia = { .send_cq = small, .recv_cq = small, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *old = l->qp[0];
	l->qp[0] = ibv_create_qp(l->pd, &ia);
	struct ibv_qp *peer = l->qp[1];
	l->qp[1] = ibv_create_qp(l->pd, &(struct ibv_qp_init_attr){ .send_cq = l->cq[1], .recv_cq = l->cq[1],
		.qp_type = IBV_QPT_RC, .cap = ia.cap });
	if (!l->qp[0] || !l->qp[1] || loop_to_rts(l, 0, l->qp[1]->qp_num, ALL) || loop_to_rts(l, 1, l->qp[0]->qp_num, ALL))
		loop_die("connect");
	for (int i = 0; i < small->cqe + 3; i++)
		post(l, 0, IBV_WR_RDMA_WRITE, 0);
	int cq_event = 0, got;
	for (int limit = 30000; (got = event(l, limit)) != -1; limit = 1500)
		cq_event += got == IBV_EVENT_CQ_ERR;
	result("an overrun completion queue has one error event", cq_event, 1);
	result("... and its queue pair fails", state(l->qp[0]), IBV_QPS_ERR);
	ibv_destroy_qp(l->qp[0]);
	ibv_destroy_qp(l->qp[1]);
	ibv_destroy_cq(small);
	l->qp[0] = old;
	l->qp[1] = peer;
	loop_disconnect(l);
}

static int woken(struct ibv_comp_channel *ch, int limit)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *arg;

	if (poll(&p, 1, limit) != 1 || ibv_get_cq_event(ch, &cq, &arg))
		return 0;
	ibv_ack_cq_events(cq, 1);
	return 1;
}

static void drop(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 1)
		;
}

static void solicited(struct loop *l)
{
	struct ibv_comp_channel *ch = ibv_create_comp_channel(l->ctx);
	struct ibv_cq *plain = NULL;

	loop_connect(l, ALL);
	for (int n = 0; n < 2; n++) {
		struct ibv_cq *cq = n ? ibv_create_cq(l->ctx, 64, NULL, ch, 0) : l->cq[0];
		struct ibv_qp_init_attr ia = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
			.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };
		ibv_destroy_qp(l->qp[n]);
		if (n) {
			plain = l->cq[1];
			l->cq[1] = cq;
		}
		l->qp[n] = ibv_create_qp(l->pd, &ia);
	}
	if (loop_to_rts(l, 0, l->qp[1]->qp_num, ALL) || loop_to_rts(l, 1, l->qp[0]->qp_num, ALL))
		loop_die("connect");
	for (int i = 0; i < 6; i++)
		receive(l, 1);
	ibv_req_notify_cq(l->cq[1], 1);
	post(l, 0, IBV_WR_SEND, 0);
	result("armed for solicited: a plain send wakes nobody", woken(ch, 300), 0);
	post(l, 0, IBV_WR_SEND, IBV_SEND_SOLICITED);
	result("... a solicited one does", woken(ch, 30000), 1);
	ibv_req_notify_cq(l->cq[1], 0);
	post(l, 0, IBV_WR_SEND, 0);
	result("armed for all: a plain send does", woken(ch, 30000), 1);
	drop(l->cq[1]);
	ibv_req_notify_cq(l->cq[1], 1);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	ibv_modify_qp(l->qp[1], &a, IBV_QP_STATE);
	result("armed for solicited: a flush does", woken(ch, 30000), 1);
	drop(l->cq[0]);
	loop_disconnect(l);
	ibv_destroy_cq(plain);
	ibv_destroy_comp_channel(ch);
}

static void drained(struct loop *l)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct ibv_qp_init_attr i;

	loop_connect(l, ALL);
	posted = seen = wrong = 0;
	for (int k = 0; k < 8; k++)
		post(l, 0, IBV_WR_RDMA_WRITE, 0);
	result("to SQD", ibv_modify_qp(l->qp[0], &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	result("the send queue drains", event(l, 30000), IBV_EVENT_SQ_DRAINED);
	ibv_query_qp(l->qp[0], &a, IBV_QP_STATE, &i);
	result("... and is drained", a.qp_state == IBV_QPS_SQD ? a.sq_draining : -1, 0);
	int before = take(l, 100);
	post(l, 0, IBV_WR_RDMA_WRITE, 0);
	usleep(300000);
	result("nothing is begun meanwhile", take(l, 100), 0);
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS };
	result("back to RTS", ibv_modify_qp(l->qp[0], &a, IBV_QP_STATE), 0);
	take_all(l);
	result("all is done then", (before <= 8 ? 0 : 100) + posted - seen + wrong, 0);
	loop_disconnect(l);
}

/* How many requests of pair 0 are flushed within half a minute, of so many. */
static int flushed(struct loop *l, int of)
{
	struct ibv_wc wc;
	int n = 0;

	for (int i = 0; n < of && i < 30000; i++, usleep(1000))
		while (ibv_poll_cq(l->cq[0], 1, &wc) == 1)
			n += wc.status == IBV_WC_WR_FLUSH_ERR;
	return n;
}

/* Into error with nothing to do and with something; then requests are posted all the same. */
static void errors(struct loop *l)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };

	for (int before = 0; before < 3; before++) {
		loop_connect(l, ALL);
		for (int i = 0; i < before; i++)
			receive(l, 0);
		result("into error", ibv_modify_qp(l->qp[0], &a, IBV_QP_STATE), 0);
		result("... what was posted is flushed", flushed(l, before), before);
		receive(l, 0);
		receive(l, 0);
		result("... and receives that are posted then", flushed(l, 2), 2);
		post(l, 0, IBV_WR_RDMA_WRITE, 0);
		receive(l, 0);
		result("... and sends, with one more", flushed(l, 2), 2);
		loop_disconnect(l);
	}
}

int main(int argc, char **argv)
{
	struct loop l;

	if (argc != 3)
		return 2;
	loop_open(&l, argv[1], atoi(argv[2]));
	fcntl(l.ctx->async_fd, F_SETFL, fcntl(l.ctx->async_fd, F_GETFL) | O_NONBLOCK);
	resized(&l);
	overrun(&l);
	solicited(&l);
	drained(&l);
	errors(&l);
	loop_close(&l);
	return ended();
}
