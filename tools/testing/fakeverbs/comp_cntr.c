// SPDX-License-Identifier: GPL-2.0
/*
 * Completion counters, where the kernel has them. They count nothing: a program sets them, and
 * reads what it has set.
 */
#include "fakeverbs.h"

#ifdef RDMA_HAS_COMP_CNTR

#define MAX_VALUE (BIT_ULL(48) - 1)

/* All operations but one, so that the driver has one to refuse. */
#define OPS                                                                    \
	(IB_QP_ATTACH_COMP_CNTR_OP_SEND | IB_QP_ATTACH_COMP_CNTR_OP_RECV |      \
	 IB_QP_ATTACH_COMP_CNTR_OP_RDMA_READ |                                  \
	 IB_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_READ |                           \
	 IB_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE)

struct fv_comp_cntr {
	struct ib_comp_cntr ib;
	struct fv_obj obj;
	u64 value[2];
};

static struct fv_comp_cntr *of(struct ib_comp_cntr *ib)
{
	return container_of(ib, struct fv_comp_cntr, ib);
}

static int create_comp_cntr(struct ib_comp_cntr *ib,
			    struct uverbs_attr_bundle *attrs)
{
	u32 id = fv_new_id();
	int ret = fv_call(FV_create_comp_cntr, id, NULL, 0, 0, 0, 0);

	if (!ret)
		ret = fv_added_attrs(attrs, FV_ATTR_COMP_CNTR_IN,
				     FV_ATTR_COMP_CNTR_OUT, id);
	if (!ret)
		fv_remember(&of(ib)->obj, "comp_cntr", id, ib);
	return ret;
}

static int destroy_comp_cntr(struct ib_comp_cntr *ib)
{
	int ret = fv_call(FV_destroy_comp_cntr, of(ib)->obj.id, NULL, 0, 0, 0,
			  0);

	if (!ret)
		fv_forget(&of(ib)->obj);
	return ret;
}

static int modify_comp_cntr(struct ib_comp_cntr *ib,
			    enum ib_comp_cntr_entry entry,
			    enum ib_comp_cntr_modify_op op, u64 value)
{
	u64 *at;
	int ret = fv_call(FV_modify_comp_cntr, of(ib)->obj.id, NULL, entry, op,
			  value, 0);

	if (ret)
		return ret;
	if (entry >= ARRAY_SIZE(of(ib)->value))
		return -EINVAL;
	at = &of(ib)->value[entry];
	if (op == IB_COMP_CNTR_MODIFY_OP_INC && value <= MAX_VALUE)
		value += *at;
	else if (op != IB_COMP_CNTR_MODIFY_OP_SET)
		return -EINVAL;
	if (value > MAX_VALUE)
		return -EINVAL;
	*at = value;
	return 0;
}

static int read_comp_cntr(struct ib_comp_cntr *ib,
			  enum ib_comp_cntr_entry entry, u64 *value)
{
	int ret = fv_call(FV_read_comp_cntr, of(ib)->obj.id, NULL, entry, 0, 0,
			  0);

	if (ret)
		return ret;
	if (entry >= ARRAY_SIZE(of(ib)->value))
		return -EINVAL;
	*value = of(ib)->value[entry];
	return 0;
}

/* Without attributes if the kernel asks for itself. */
static int query_comp_cntr_caps(struct ib_device *ib,
				struct ib_comp_cntr_caps *caps,
				struct uverbs_attr_bundle *attrs)
{
	caps->max_counters = 100;
	caps->max_value = MAX_VALUE;
	caps->supported_qp_attach_ops = OPS;
	return fv_call(FV_query_comp_cntr_caps, 0, NULL, !!attrs, 0, 0, 0);
}

static int qp_attach_comp_cntr(struct ib_qp *qp, struct ib_comp_cntr *ib,
			       struct ib_qp_attach_comp_cntr_attr *attr)
{
	if (attr->op_mask & ~OPS)
		return -EOPNOTSUPP;
	return fv_call(FV_qp_attach_comp_cntr, qp->qp_num, NULL,
		       of(ib)->obj.id, attr->op_mask, 0, 0);
}
#endif

const struct ib_device_ops fv_comp_cntr_ops = {
#ifdef RDMA_HAS_COMP_CNTR
	.create_comp_cntr = create_comp_cntr,
	.destroy_comp_cntr = destroy_comp_cntr,
	.modify_comp_cntr = modify_comp_cntr,
	.qp_attach_comp_cntr = qp_attach_comp_cntr,
	.query_comp_cntr_caps = query_comp_cntr_caps,
	.read_comp_cntr = read_comp_cntr,

	INIT_RDMA_OBJ_SIZE(ib_comp_cntr, fv_comp_cntr, ib),
#endif
};
