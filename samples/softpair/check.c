// SPDX-License-Identifier: GPL-2.0
/*
 * softpair_check: a kernel consumer, in C, that exercises the softpair example
 * through the unmodified verbs of include/rdma. Loading it runs the checks on
 * each device called softpair*, prints KTAP lines to the kernel log, and fails
 * with -EIO if a check failed or no device was found.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#define MSG_LEN 4096
#define RING 8

struct side {
	struct ib_qp *qp;
	u8 *buf;
};

struct pair {
	struct ib_device *dev;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct side a, b;
	struct completion wake;
	atomic_t wakes;
	struct work_struct send;
	struct completion sending;
};

static int checks, failures;

static void check(bool ok, const char *what)
{
	pr_info("softpair_check: %sok %d - %s\n", ok ? "" : "not ", ++checks,
		what);
	if (!ok)
		failures++;
}

static void on_completion(struct ib_cq *cq, void *context)
{
	struct pair *p = context;

	atomic_inc(&p->wakes);
	complete(&p->wake);
}

static struct ib_qp *make_qp(struct pair *p)
{
	struct ib_qp_init_attr attr = {
		.send_cq = p->cq,
		.recv_cq = p->cq,
		.cap = {
			.max_send_wr = RING,
			.max_recv_wr = RING,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_UC,
	};

	return ib_create_qp(p->pd, &attr);
}

static int to_state(struct ib_qp *qp, enum ib_qp_state state, u32 peer)
{
	struct ib_qp_attr attr = {
		.qp_state = state,
		.port_num = 1,
		.path_mtu = IB_MTU_4096,
		.dest_qp_num = peer,
		.ah_attr = { .type = RDMA_AH_ATTR_TYPE_IB, .port_num = 1 },
	};
	int mask = IB_QP_STATE;

	if (state == IB_QPS_INIT)
		mask |= IB_QP_PKEY_INDEX | IB_QP_PORT | IB_QP_ACCESS_FLAGS;
	else if (state == IB_QPS_RTR)
		mask |= IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
			IB_QP_RQ_PSN;
	else if (state == IB_QPS_RTS)
		mask |= IB_QP_SQ_PSN;
	return ib_modify_qp(qp, &attr, mask);
}

static int connect(struct ib_qp *qp, u32 peer)
{
	return to_state(qp, IB_QPS_INIT, 0) ?:
	       to_state(qp, IB_QPS_RTR, peer) ?:
	       to_state(qp, IB_QPS_RTS, 0);
}

static int post_recv(struct pair *p, struct side *s, u32 len, u64 id)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)s->buf,
		.length = len,
		.lkey = p->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(s->qp, &wr, NULL);
}

static int post_send(struct pair *p, struct side *s, u32 len, u64 id,
		     enum ib_wr_opcode op)
{
	struct ib_sge sge = {
		.addr = (uintptr_t)s->buf,
		.length = len,
		.lkey = p->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IB_SEND_SIGNALED,
		.ex.imm_data = cpu_to_be32(0x12345678),
	};

	return ib_post_send(s->qp, &wr, NULL);
}

/* Returns the completion of request @id among the first @n. */
static struct ib_wc *find(struct ib_wc *wc, int n, u64 id)
{
	while (n-- > 0)
		if (wc[n].wr_id == id)
			return &wc[n];
	return NULL;
}

static void check_traffic(struct pair *p)
{
	const struct ib_recv_wr *bad_recv = NULL;
	struct ib_recv_wr chain[RING + 1] = {};
	struct ib_wc wc[2 * RING], *w;
	int i, n;

	for (i = 0; i < MSG_LEN; i++)
		p->a.buf[i] = i * 7;
	check(!ib_req_notify_cq(p->cq, IB_CQ_NEXT_COMP), "arm the CQ");
	check(!post_recv(p, &p->b, MSG_LEN, 1), "post a receive");
	check(!post_send(p, &p->a, MSG_LEN, 2, IB_WR_SEND_WITH_IMM),
	      "post a send with immediate");
	check(wait_for_completion_timeout(&p->wake, 5 * HZ),
	      "the completion handler runs");
	n = ib_poll_cq(p->cq, ARRAY_SIZE(wc), wc);
	check(n == 2, "two completions");
	w = find(wc, n, 2);
	check(w && w->status == IB_WC_SUCCESS && w->opcode == IB_WC_SEND &&
	      w->qp == p->a.qp, "the send has completed");
	w = find(wc, n, 1);
	check(w && w->status == IB_WC_SUCCESS && w->opcode == IB_WC_RECV &&
	      w->qp == p->b.qp && w->byte_len == MSG_LEN &&
	      (w->wc_flags & IB_WC_WITH_IMM) &&
	      w->ex.imm_data == cpu_to_be32(0x12345678),
	      "the receive has completed with the immediate");
	check(!memcmp(p->a.buf, p->b.buf, MSG_LEN), "the data is the same");

	/* Disarmed now: another message must not notify the consumer. */
	check(!post_recv(p, &p->b, MSG_LEN, 3) &&
	      !post_send(p, &p->a, 8, 4, IB_WR_SEND), "a second message");
	msleep(50);
	check(atomic_read(&p->wakes) == 1, "the handler has run once");
	check(ib_req_notify_cq(p->cq, IB_CQ_NEXT_COMP |
					IB_CQ_REPORT_MISSED_EVENTS) > 0,
	      "arming reports missed completions");
	check(ib_poll_cq(p->cq, 1, wc) == 1 && ib_poll_cq(p->cq, 1, wc) == 1 &&
	      ib_poll_cq(p->cq, 1, wc) == 0, "polled one by one");

	check(post_send(p, &p->a, 8, 5, IB_WR_RDMA_WRITE) == -EINVAL,
	      "an unknown operation is refused");

	/* One more than fits: the last is refused and returned in bad_wr. */
	for (i = 0; i <= RING; i++) {
		chain[i].wr_id = 100 + i;
		chain[i].next = i < RING ? &chain[i + 1] : NULL;
	}
	check(ib_post_recv(p->b.qp, chain, &bad_recv) == -ENOMEM &&
	      bad_recv == &chain[RING], "a chain too long is cut at the right place");

	/* The first receive is too small, which moves the receiver to error. */
	check(!post_send(p, &p->a, 8, 6, IB_WR_SEND), "a message too long");
	n = ib_poll_cq(p->cq, ARRAY_SIZE(wc), wc);
	w = find(wc, n, 100);
	check(n == RING + 1 && w && w->status == IB_WC_LOC_LEN_ERR,
	      "ends its receive with a length error");
	w = find(wc, n, 100 + RING - 1);
	check(w && w->status == IB_WC_WR_FLUSH_ERR, "and flushes the others");
}

static void send_aside(struct work_struct *work)
{
	struct pair *p = container_of(work, struct pair, send);

	complete(&p->sending);
	post_send(p, &p->a, MSG_LEN, 201, IB_WR_SEND);
}

/*
 * The receiver is drained while a message is on its way into it. With hold_ms of
 * softpair, the message has its receive by then, and is not copied yet.
 */
static void check_drain(struct pair *p)
{
	struct ib_wc wc[2 * RING], *old, *marker;
	int n;

	check(!to_state(p->b.qp, IB_QPS_RESET, 0) &&
	      !connect(p->b.qp, p->a.qp->qp_num), "reset and connect again");
	memset(p->a.buf, 1, MSG_LEN);
	check(!post_recv(p, &p->b, MSG_LEN, 200), "a receive for a drain");
	schedule_work(&p->send);
	wait_for_completion(&p->sending);
	msleep(20);
	check(!to_state(p->b.qp, IB_QPS_ERR, 0) &&
	      !post_recv(p, &p->b, MSG_LEN, 202), "drain");
	n = ib_poll_cq(p->cq, ARRAY_SIZE(wc), wc);
	memset(p->b.buf, 2, MSG_LEN);
	old = find(wc, n, 200);
	marker = find(wc, n, 202);
	check(old && marker && old < marker &&
	      marker->status == IB_WC_WR_FLUSH_ERR,
	      "the end of the drain is the last completion");
	flush_work(&p->send);
	check(!memchr_inv(p->b.buf, 2, MSG_LEN),
	      "nothing is written after a drain");
	ib_poll_cq(p->cq, ARRAY_SIZE(wc), wc);
}

static void check_query(struct pair *p)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	check(!ib_query_qp(p->a.qp, &attr, IB_QP_STATE, &init) &&
	      attr.qp_state == IB_QPS_RTS &&
	      attr.dest_qp_num == p->b.qp->qp_num &&
	      init.send_cq == p->cq && init.qp_type == IB_QPT_UC,
	      "query tells state, peer and queues");
	check(to_state(p->a.qp, IB_QPS_INIT, 0) == -EINVAL,
	      "a forbidden transition is refused");
}

static void run(struct ib_device *dev)
{
	struct ib_cq_init_attr cq_attr = { .cqe = 4 * RING };
	struct pair *p = kzalloc_obj(*p);

	if (!p)
		return;
	p->dev = dev;
	init_completion(&p->wake);
	init_completion(&p->sending);
	INIT_WORK(&p->send, send_aside);
	p->a.buf = kzalloc(MSG_LEN, GFP_KERNEL);
	p->b.buf = kzalloc(MSG_LEN, GFP_KERNEL);
	p->pd = ib_alloc_pd(dev, 0);
	check(!IS_ERR(p->pd), "allocate a PD");
	p->cq = ib_create_cq(dev, on_completion, NULL, p, &cq_attr);
	check(!IS_ERR(p->cq) && p->cq->cqe == 4 * RING, "create a CQ");
	if (!p->a.buf || !p->b.buf || IS_ERR(p->pd) || IS_ERR(p->cq))
		return;

	p->a.qp = make_qp(p);
	p->b.qp = make_qp(p);
	check(!IS_ERR(p->a.qp) && !IS_ERR(p->b.qp) &&
	      p->a.qp->qp_num != p->b.qp->qp_num, "create two QPs");
	if (IS_ERR(p->a.qp) || IS_ERR(p->b.qp))
		return;
	check(!connect(p->a.qp, p->b.qp->qp_num) &&
	      !connect(p->b.qp, p->a.qp->qp_num), "connect them");
	check_query(p);
	check_traffic(p);
	check_drain(p);

	check(ib_destroy_cq_user(p->cq, NULL) == -EBUSY, "a CQ in use stays");
	check(!ib_destroy_qp(p->a.qp) && !ib_destroy_qp(p->b.qp),
	      "destroy the QPs");
	ib_destroy_cq(p->cq);
	ib_dealloc_pd(p->pd);
	kfree(p->a.buf);
	kfree(p->b.buf);
	kfree(p);
}

static int add(struct ib_device *dev)
{
	if (strncmp(dev_name(&dev->dev), "softpair", 8))
		return -EOPNOTSUPP;
	run(dev);
	return 0;
}

static void remove(struct ib_device *dev, void *data)
{
}

static struct ib_client client = {
	.name = "softpair_check",
	.add = add,
	.remove = remove,
};

static int __init start(void)
{
	int ret = ib_register_client(&client);

	if (ret)
		return ret;
	pr_info("softpair_check: 1..%d\n", checks);
	if (checks && !failures)
		return 0;
	ib_unregister_client(&client);
	return -EIO;
}

static void __exit stop(void)
{
	ib_unregister_client(&client);
}

module_init(start);
module_exit(stop);
MODULE_DESCRIPTION("Checks of the softpair example");
MODULE_LICENSE("GPL");
