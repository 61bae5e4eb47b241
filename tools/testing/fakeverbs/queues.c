// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues, queue pairs, shared receive queues, work queues. A work request
 * goes nowhere: it comes back as a completion at once, and those of an SRQ are counted.
 */
#include <linux/slab.h>
#include "fakeverbs.h"

struct fv_qp {
	struct ib_qp ib;
	struct fv_obj obj;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
};

struct fv_srq {
	struct ib_srq ib;
	struct fv_obj obj;
	struct ib_srq_attr attr;
	atomic_t posted;
};

struct fv_wq {
	struct ib_wq ib;
	struct fv_obj obj;
};

struct fv_table {
	struct ib_rwq_ind_table ib;
	struct fv_obj obj;
};

/* Completion queues */

static int make_cq(enum fv_op op, struct ib_cq *ib,
		   const struct ib_cq_init_attr *attr,
		   struct uverbs_attr_bundle *attrs)
{
	struct fv_cq *cq = container_of(ib, struct fv_cq, ib);
	u32 id = fv_new_id();
	int ret;

	if (!attr->cqe || attr->cqe > FV_MAX_WR)
		return -EINVAL;
	cq->ring = kvcalloc(attr->cqe, sizeof(*cq->ring), GFP_KERNEL);
	if (!cq->ring)
		return -ENOMEM;
	spin_lock_init(&cq->lock);
	cq->size = attr->cqe;
	ib->cqe = attr->cqe;
	ret = fv_call(op, id, attrs ? &attrs->driver_udata : NULL, attr->cqe,
		      attr->comp_vector, attr->flags, 0);
	if (!ret && attrs)
		ret = fv_added_attrs(attrs, FV_ATTR_CQ_IN, FV_ATTR_CQ_OUT, id);
	if (ret) {
		kvfree(cq->ring);
		return ret;
	}
	fv_remember(&cq->obj, "cq", id, ib);
	return 0;
}

static int create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs)
{
	return make_cq(FV_create_cq, ib, attr, attrs);
}

static int create_user_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr,
			  struct uverbs_attr_bundle *attrs)
{
	return make_cq(FV_create_user_cq, ib, attr, attrs);
}

static int resize_cq(struct ib_cq *ib, unsigned int cqe, struct ib_udata *udata)
{
	struct fv_cq *cq = container_of(ib, struct fv_cq, ib);
	struct ib_wc *ring, *old;
	u32 i;
	int ret;

	if (!cqe || cqe > FV_MAX_WR)
		return -EINVAL;
	ring = kvcalloc(cqe, sizeof(*ring), GFP_KERNEL);
	if (!ring)
		return -ENOMEM;
	ret = fv_call(FV_resize_cq, cq->obj.id, udata, cqe, 0, 0, 0);
	if (ret) {
		kvfree(ring);
		return ret;
	}
	spin_lock_irq(&cq->lock);
	if (cq->count > cqe) {
		old = ring;
		ret = -EINVAL;
	} else {
		for (i = 0; i < cq->count; i++)
			ring[i] = cq->ring[(cq->head + i) % cq->size];
		old = cq->ring;
		cq->ring = ring;
		cq->size = cqe;
		cq->head = 0;
		ib->cqe = cqe;
	}
	spin_unlock_irq(&cq->lock);
	kvfree(old);
	return ret;
}

static int modify_cq(struct ib_cq *ib, u16 count, u16 period)
{
	return fv_call(FV_modify_cq, fv_cq_id(ib), NULL, count, period, 0, 0);
}

static int destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct fv_cq *cq = container_of(ib, struct fv_cq, ib);
	int ret = fv_call(FV_destroy_cq, cq->obj.id, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	fv_forget(&cq->obj);
	kvfree(cq->ring);
	return 0;
}

/* Has the completions that a knob made, and those of queue pairs that are gone. */
static struct ib_qp nobody;

static void disown(struct ib_cq *ib, struct ib_qp *qp)
{
	struct fv_cq *cq = container_of(ib, struct fv_cq, ib);
	struct ib_wc *wc;
	u32 i;

	if (!ib)
		return;
	spin_lock_irq(&cq->lock);
	for (i = 0; i < cq->count; i++) {
		wc = &cq->ring[(cq->head + i) % cq->size];
		if (wc->qp == qp)
			wc->qp = &nobody;
	}
	spin_unlock_irq(&cq->lock);
}

int fv_complete(struct fv_cq *cq, const struct ib_wc *wc)
{
	unsigned long flags;
	bool notify;
	u32 last;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->count == cq->size) {
		spin_unlock_irqrestore(&cq->lock, flags);
		return -ENOMEM;
	}
	last = (cq->head + cq->count++) % cq->size;
	cq->ring[last] = *wc;
	if (!wc->qp)
		cq->ring[last].qp = &nobody;
	notify = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (notify && cq->ib.comp_handler)
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
	return 0;
}

static int poll_cq(struct ib_cq *ib, int count, struct ib_wc *wc)
{
	struct fv_cq *cq = container_of(ib, struct fv_cq, ib);
	unsigned long flags;
	int ret = fv_call_atomic(FV_poll_cq, cq->obj.id, count, 0);
	int i;

	if (ret)
		return ret;
	spin_lock_irqsave(&cq->lock, flags);
	for (i = 0; i < count && cq->count; i++) {
		wc[i] = cq->ring[cq->head];
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return i;
}

static int notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags how)
{
	struct fv_cq *cq = container_of(ib, struct fv_cq, ib);
	unsigned long flags;
	int ret = fv_call_atomic(FV_notify_cq, cq->obj.id, how, 0);

	if (ret)
		return ret;
	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	ret = (how & IB_CQ_REPORT_MISSED_EVENTS) && cq->count;
	spin_unlock_irqrestore(&cq->lock, flags);
	return ret;
}

/* Queue pairs */

static int create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init,
		     struct ib_udata *udata)
{
	struct fv_qp *qp = container_of(ib, struct fv_qp, ib);
	const struct ib_qp_cap *cap = &init->cap;
	u32 id = fv_new_id();
	int ret;

	if (cap->max_send_wr > FV_MAX_WR || cap->max_recv_wr > FV_MAX_WR ||
	    cap->max_send_sge > FV_MAX_SGE || cap->max_recv_sge > FV_MAX_SGE)
		return -EINVAL;
	ret = fv_call(FV_create_qp, id, udata, init->qp_type,
		      init->create_flags,
		      (u64)cap->max_send_wr << 32 | cap->max_recv_wr,
		      (u64)fv_cq_id(init->send_cq) << 32 |
			      fv_cq_id(init->recv_cq));
	if (!ret && udata)
		ret = fv_added_attrs(rdma_udata_to_uverbs_attr_bundle(udata),
				     FV_ATTR_QP_IN, FV_ATTR_QP_OUT, id);
	if (ret)
		return ret;
	ib->qp_num = id;
	qp->init = *init;
	qp->attr.qp_state = IB_QPS_RESET;
	fv_remember(&qp->obj, "qp", id, ib);
	return 0;
}

static int modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata)
{
	struct fv_qp *qp = container_of(ib, struct fv_qp, ib);
	enum ib_qp_state from = mask & IB_QP_CUR_STATE ? attr->cur_qp_state :
							 qp->attr.qp_state;
	enum ib_qp_state to = mask & IB_QP_STATE ? attr->qp_state : from;
	int ret;

	if (ib->qp_type != IB_QPT_DRIVER &&
	    !ib_modify_qp_is_ok(from, to, ib->qp_type, mask & ~IB_QP_RATE_LIMIT))
		return -EINVAL;
	ret = fv_call(FV_modify_qp, ib->qp_num, udata, mask, from, to,
		      mask & IB_QP_RATE_LIMIT ? attr->rate_limit : 0);
	if (ret)
		return ret;
	qp->attr.qp_state = to;
	if (mask & IB_QP_PORT)
		qp->attr.port_num = attr->port_num;
	if (mask & IB_QP_QKEY)
		qp->attr.qkey = attr->qkey;
	if (mask & IB_QP_ACCESS_FLAGS)
		qp->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IB_QP_DEST_QPN)
		qp->attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IB_QP_PATH_MTU)
		qp->attr.path_mtu = attr->path_mtu;
	if (mask & IB_QP_SQ_PSN)
		qp->attr.sq_psn = attr->sq_psn;
	if (mask & IB_QP_RQ_PSN)
		qp->attr.rq_psn = attr->rq_psn;
	return 0;
}

static int query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask,
		    struct ib_qp_init_attr *init)
{
	struct fv_qp *qp = container_of(ib, struct fv_qp, ib);
	int ret = fv_call(FV_query_qp, ib->qp_num, NULL, mask, 0, 0, 0);

	if (ret)
		return ret;
	*attr = qp->attr;
	attr->cur_qp_state = attr->qp_state;
	attr->cap = qp->init.cap;
	*init = qp->init;
	return 0;
}

static int destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct fv_qp *qp = container_of(ib, struct fv_qp, ib);
	int ret = fv_call(FV_destroy_qp, ib->qp_num, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	fv_forget(&qp->obj);
	disown(ib->send_cq, ib);
	disown(ib->recv_cq, ib);
	return 0;
}

static u32 bytes_of(const struct ib_sge *sges, int count)
{
	u32 bytes = 0;
	int i;

	for (i = 0; i < count; i++)
		bytes += sges[i].length;
	return bytes;
}

/* The vendor's error code tells the flags of the request; the slid, its entries. */
static int send_one(struct ib_qp *ib, const struct ib_send_wr *wr)
{
	struct fv_qp *qp = container_of(ib, struct fv_qp, ib);
	struct ib_wc wc = {
		.wr_id = wr->wr_id,
		.status = IB_WC_SUCCESS,
		.opcode = IB_WC_SEND,
		.vendor_err = wr->send_flags,
		.byte_len = bytes_of(wr->sg_list, wr->num_sge),
		.ex.imm_data = wr->ex.imm_data,
		.qp = ib,
		.slid = wr->num_sge,
	};
	int ret = fv_call_atomic(FV_post_send, ib->qp_num, wr->opcode,
				 wr->wr_id);

	if (ret)
		return ret;
	if (wr->num_sge > qp->init.cap.max_send_sge || !ib->send_cq)
		return -EINVAL;
	if (ib->qp_type == IB_QPT_UD) {
		wc.src_qp = ud_wr(wr)->remote_qpn;
	} else {
		switch (wr->opcode) {
		case IB_WR_RDMA_WRITE:
		case IB_WR_RDMA_WRITE_WITH_IMM:
			wc.opcode = IB_WC_RDMA_WRITE;
			wc.src_qp = rdma_wr(wr)->rkey;
			break;
		case IB_WR_RDMA_READ:
			wc.opcode = IB_WC_RDMA_READ;
			wc.src_qp = rdma_wr(wr)->rkey;
			break;
		case IB_WR_ATOMIC_CMP_AND_SWP:
			wc.opcode = IB_WC_COMP_SWAP;
			wc.src_qp = atomic_wr(wr)->rkey;
			break;
		case IB_WR_ATOMIC_FETCH_AND_ADD:
			wc.opcode = IB_WC_FETCH_ADD;
			wc.src_qp = atomic_wr(wr)->rkey;
			break;
		case IB_WR_SEND:
		case IB_WR_SEND_WITH_IMM:
		case IB_WR_SEND_WITH_INV:
			break;
		default:
			return -EINVAL;
		}
	}
	return fv_complete(container_of(ib->send_cq, struct fv_cq, ib), &wc);
}

static int post_send(struct ib_qp *ib, const struct ib_send_wr *wr,
		     const struct ib_send_wr **bad)
{
	int ret;

	for (; wr; wr = wr->next) {
		ret = send_one(ib, wr);
		if (ret) {
			*bad = wr;
			return ret;
		}
	}
	return 0;
}

static int recv_one(struct ib_qp *ib, const struct ib_recv_wr *wr)
{
	struct fv_qp *qp = container_of(ib, struct fv_qp, ib);
	struct ib_wc wc = {
		.wr_id = wr->wr_id,
		.status = IB_WC_SUCCESS,
		.opcode = IB_WC_RECV,
		.byte_len = bytes_of(wr->sg_list, wr->num_sge),
		.qp = ib,
		.slid = wr->num_sge,
	};
	int ret = fv_call_atomic(FV_post_recv, ib->qp_num, wr->num_sge,
				 wr->wr_id);

	if (ret)
		return ret;
	if (wr->num_sge > qp->init.cap.max_recv_sge || !ib->recv_cq || ib->srq)
		return -EINVAL;
	return fv_complete(container_of(ib->recv_cq, struct fv_cq, ib), &wc);
}

static int post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr,
		     const struct ib_recv_wr **bad)
{
	int ret;

	for (; wr; wr = wr->next) {
		ret = recv_one(ib, wr);
		if (ret) {
			*bad = wr;
			return ret;
		}
	}
	return 0;
}

/* Shared receive queues */

/* The address of the buffer that a program describes; 0 without such a description. */
static int srq_buffer(struct ib_udata *udata, u64 *addr)
{
#ifdef RDMA_HAS_SRQ_BUF_UMEM
	struct uverbs_attr_bundle *attrs =
		rdma_udata_to_uverbs_attr_bundle(udata);
	struct ib_uverbs_buffer_desc desc;
	int ret;

	if (!uverbs_attr_is_valid(attrs, UVERBS_ATTR_CREATE_SRQ_BUF_UMEM))
		return 0;
	ret = uverbs_copy_from(&desc, attrs, UVERBS_ATTR_CREATE_SRQ_BUF_UMEM);
	if (!ret)
		*addr = desc.addr;
	return ret;
#else
	return 0;
#endif
}

static int create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init,
		      struct ib_udata *udata)
{
	struct fv_srq *srq = container_of(ib, struct fv_srq, ib);
	u32 id = fv_new_id();
	u64 extra = 0;
	int ret;

	if (init->attr.max_wr > FV_MAX_WR || init->attr.max_sge > FV_MAX_SGE)
		return -EINVAL;
	switch (init->srq_type) {
	case IB_SRQT_BASIC:
		ret = udata ? srq_buffer(udata, &extra) : 0;
		if (ret)
			return ret;
		break;
	case IB_SRQT_XRC:
		extra = fv_cq_id(init->ext.cq);
		break;
	case IB_SRQT_TM:
		extra = (u64)init->ext.tag_matching.max_num_tags << 32 |
			fv_cq_id(init->ext.cq);
		break;
	default:
		return -EINVAL;
	}
	ret = fv_call(FV_create_srq, id, udata, init->srq_type,
		      init->attr.max_wr, init->attr.max_sge, extra);
	if (ret)
		return ret;
	srq->attr = init->attr;
	ib->ext.xrc.srq_num = id;
	fv_remember(&srq->obj, "srq", id, ib);
	return 0;
}

static int modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr,
		      enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct fv_srq *srq = container_of(ib, struct fv_srq, ib);
	int ret;

	if (mask & IB_SRQ_MAX_WR && attr->max_wr > FV_MAX_WR)
		return -EINVAL;
	ret = fv_call(FV_modify_srq, srq->obj.id, udata, mask, attr->max_wr,
		      attr->srq_limit, 0);
	if (ret)
		return ret;
	if (mask & IB_SRQ_MAX_WR)
		srq->attr.max_wr = attr->max_wr;
	if (mask & IB_SRQ_LIMIT)
		srq->attr.srq_limit = attr->srq_limit;
	return 0;
}

static int query_srq(struct ib_srq *ib, struct ib_srq_attr *attr)
{
	struct fv_srq *srq = container_of(ib, struct fv_srq, ib);

	*attr = srq->attr;
	return fv_call(FV_query_srq, srq->obj.id, NULL,
		       atomic_read(&srq->posted), 0, 0, 0);
}

static int destroy_srq(struct ib_srq *ib, struct ib_udata *udata)
{
	struct fv_srq *srq = container_of(ib, struct fv_srq, ib);
	int ret = fv_call(FV_destroy_srq, srq->obj.id, NULL, 0, 0, 0, 0);

	if (!ret)
		fv_forget(&srq->obj);
	return ret;
}

static int post_srq_recv(struct ib_srq *ib, const struct ib_recv_wr *wr,
			 const struct ib_recv_wr **bad)
{
	struct fv_srq *srq = container_of(ib, struct fv_srq, ib);
	int ret;

	for (; wr; wr = wr->next) {
		ret = fv_call_atomic(FV_post_srq_recv, srq->obj.id,
				     wr->num_sge, wr->wr_id);
		if (!ret && wr->num_sge > srq->attr.max_sge)
			ret = -EINVAL;
		if (ret) {
			*bad = wr;
			return ret;
		}
		atomic_inc(&srq->posted);
	}
	return 0;
}

/* Work queues and tables of them */

static struct ib_wq *create_wq(struct ib_pd *pd, struct ib_wq_init_attr *init,
			       struct ib_udata *udata)
{
	u32 id = fv_new_id();
	struct fv_wq *wq;
	int ret;

	/* uverbs does not look whether there is one. */
	if (init->wq_type != IB_WQT_RQ || IS_ERR_OR_NULL(init->cq) ||
	    init->max_wr > FV_MAX_WR || init->max_sge > FV_MAX_SGE)
		return ERR_PTR(-EINVAL);
	wq = kzalloc(sizeof(*wq), GFP_KERNEL);
	if (!wq)
		return ERR_PTR(-ENOMEM);
	ret = fv_call(FV_create_wq, id, udata, init->max_wr, init->max_sge,
		      init->create_flags, fv_cq_id(init->cq));
	if (ret) {
		kfree(wq);
		return ERR_PTR(ret);
	}
	wq->ib.wq_num = id;
	wq->ib.state = IB_WQS_RESET;
	wq->ib.device = pd->device;
	wq->ib.event_handler = init->event_handler;
	fv_remember(&wq->obj, "wq", id, &wq->ib);
	return &wq->ib;
}

static int modify_wq(struct ib_wq *ib, struct ib_wq_attr *attr, u32 mask,
		     struct ib_udata *udata)
{
	enum ib_wq_state from = mask & IB_WQ_CUR_STATE ? attr->curr_wq_state :
							 ib->state;
	int ret;

	if (from != ib->state)
		return -EINVAL;
	ret = fv_call(FV_modify_wq, ib->wq_num, udata, mask, attr->wq_state,
		      attr->flags, attr->flags_mask);
	if (!ret && mask & IB_WQ_STATE)
		ib->state = attr->wq_state;
	return ret;
}

static int destroy_wq(struct ib_wq *ib, struct ib_udata *udata)
{
	struct fv_wq *wq = container_of(ib, struct fv_wq, ib);
	int ret = fv_call(FV_destroy_wq, wq->obj.id, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	fv_forget(&wq->obj);
	kfree(wq);
	return 0;
}

static int create_table(struct ib_rwq_ind_table *ib,
			struct ib_rwq_ind_table_init_attr *init,
			struct ib_udata *udata)
{
	struct fv_table *table = container_of(ib, struct fv_table, ib);
	u32 id = fv_new_id();
	u64 sum = 0;
	int i, ret;

	if (init->log_ind_tbl_size > 7)
		return -EINVAL;
	for (i = 0; i < 1 << init->log_ind_tbl_size; i++)
		sum += init->ind_tbl[i]->wq_num;
	ret = fv_call(FV_create_rwq_ind_table, id, udata,
		      init->log_ind_tbl_size, sum, 0, 0);
	if (ret)
		return ret;
	ib->ind_tbl_num = id;
	fv_remember(&table->obj, "table", id, ib);
	return 0;
}

static int destroy_table(struct ib_rwq_ind_table *ib)
{
	struct fv_table *table = container_of(ib, struct fv_table, ib);
	int ret = fv_call(FV_destroy_rwq_ind_table, table->obj.id, NULL, 0, 0,
			  0, 0);

	if (!ret)
		fv_forget(&table->obj);
	return ret;
}

const struct ib_device_ops fv_queue_ops = {
	.create_cq = create_cq,
	.create_qp = create_qp,
	.create_rwq_ind_table = create_table,
	.create_srq = create_srq,
	.create_user_cq = create_user_cq,
	.create_wq = create_wq,
	.destroy_cq = destroy_cq,
	.destroy_qp = destroy_qp,
	.destroy_rwq_ind_table = destroy_table,
	.destroy_srq = destroy_srq,
	.destroy_wq = destroy_wq,
	.modify_cq = modify_cq,
	.modify_qp = modify_qp,
	.modify_srq = modify_srq,
	.modify_wq = modify_wq,
	.poll_cq = poll_cq,
	.post_recv = post_recv,
	.post_send = post_send,
	.post_srq_recv = post_srq_recv,
	.query_qp = query_qp,
	.query_srq = query_srq,
	.req_notify_cq = notify_cq,
	.resize_user_cq = resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_cq, fv_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, fv_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_rwq_ind_table, fv_table, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, fv_srq, ib),
};
