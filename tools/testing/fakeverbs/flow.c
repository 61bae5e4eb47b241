// SPDX-License-Identifier: GPL-2.0
/* Flows, what they refer to (actions, counters), and multicast groups. */
#include <linux/slab.h>
#include <linux/unaligned.h>
#include "fakeverbs.h"

struct fv_flow {
	struct ib_flow ib;
	struct fv_obj obj;
};

/* What a spec refers to, or the first bytes of what it compares with. */
static u64 detail(const union ib_flow_spec *spec)
{
	switch (spec->type & ~IB_FLOW_SPEC_INNER) {
	case IB_FLOW_SPEC_ACTION_TAG:
		return spec->flow_tag.tag_id;
	case IB_FLOW_SPEC_ACTION_DROP:
		return 0;
	case IB_FLOW_SPEC_ACTION_HANDLE:
		return container_of(spec->action.act, struct fv_flow_action,
				    ib)->obj.id;
	case IB_FLOW_SPEC_ACTION_COUNT:
		return container_of(spec->flow_count.counters,
				    struct fv_counters, ib)->obj.id;
	case IB_FLOW_SPEC_ETH:
		return get_unaligned((const u32 *)&spec->eth.val);
	case IB_FLOW_SPEC_IB:
		return get_unaligned((const u32 *)&spec->ib.val);
	case IB_FLOW_SPEC_IPV4:
		return get_unaligned((const u32 *)&spec->ipv4.val);
	case IB_FLOW_SPEC_IPV6:
		return get_unaligned((const u32 *)&spec->ipv6.val);
	case IB_FLOW_SPEC_ESP:
		return get_unaligned((const u32 *)&spec->esp.val);
	case IB_FLOW_SPEC_TCP:
	case IB_FLOW_SPEC_UDP:
		return get_unaligned((const u32 *)&spec->tcp_udp.val);
	case IB_FLOW_SPEC_VXLAN_TUNNEL:
		return get_unaligned((const u32 *)&spec->tunnel.val);
	case IB_FLOW_SPEC_GRE:
		return get_unaligned((const u32 *)&spec->gre.val);
	case IB_FLOW_SPEC_MPLS:
		return get_unaligned((const u32 *)&spec->mpls.val);
	default:
		return 0;
	}
}

static struct ib_flow *create_flow(struct ib_qp *qp, struct ib_flow_attr *attr,
				   struct ib_udata *udata)
{
	const union ib_flow_spec *spec = (const void *)(attr + 1);
	const void *end = (const void *)attr + attr->size;
	u32 id = fv_new_id();
	struct fv_flow *flow;
	int ret, i;

	flow = kzalloc(sizeof(*flow), GFP_KERNEL);
	if (!flow)
		return ERR_PTR(-ENOMEM);
	ret = fv_call(FV_create_flow, id, udata, qp->qp_num, attr->type,
		      attr->num_of_specs, attr->flags << 16 | attr->priority);
	for (i = 0; i < attr->num_of_specs && !ret; i++) {
		if ((const void *)spec + spec->size > end) {
			ret = -EINVAL;
			break;
		}
		ret = fv_call(FV_flow_spec, id, NULL, spec->type, spec->size,
			      detail(spec), i);
		spec = (const void *)spec + spec->size;
	}
	if (ret) {
		kfree(flow);
		return ERR_PTR(ret);
	}
	fv_remember(&flow->obj, "flow", id, &flow->ib);
	return &flow->ib;
}

static int destroy_flow(struct ib_flow *ib)
{
	struct fv_flow *flow = container_of(ib, struct fv_flow, ib);
	int ret = fv_call(FV_destroy_flow, flow->obj.id, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	fv_forget(&flow->obj);
	kfree(flow);
	return 0;
}

/* Only a method of the driver's (definitions.c) makes one. */
static int destroy_flow_action(struct ib_flow_action *ib)
{
	struct fv_flow_action *action =
		container_of(ib, struct fv_flow_action, ib);
	int ret = fv_call(FV_destroy_flow_action, action->obj.id, NULL, 0, 0, 0,
			  0);

	if (ret)
		return ret;
	fv_forget(&action->obj);
	kfree(action);
	return 0;
}

static int create_counters(struct ib_counters *ib,
			   struct uverbs_attr_bundle *attrs)
{
	struct fv_counters *counters = container_of(ib, struct fv_counters, ib);
	u32 id = fv_new_id();
	int ret = fv_call(FV_create_counters, id, NULL, 0, 0, 0, 0);

	if (!ret)
		fv_remember(&counters->obj, "counters", id, ib);
	return ret;
}

/* The values are 1000 times the number of the object, and the index. */
static int read_counters(struct ib_counters *ib,
			 struct ib_counters_read_attr *attr,
			 struct uverbs_attr_bundle *attrs)
{
	struct fv_counters *counters = container_of(ib, struct fv_counters, ib);
	u32 i;

	for (i = 0; i < attr->ncounters; i++)
		attr->counters_buff[i] = 1000ULL * counters->obj.id + i;
	return fv_call(FV_read_counters, counters->obj.id, NULL,
		       attr->ncounters, attr->flags, 0, 0);
}

static int destroy_counters(struct ib_counters *ib)
{
	struct fv_counters *counters = container_of(ib, struct fv_counters, ib);
	int ret = fv_call(FV_destroy_counters, counters->obj.id, NULL, 0, 0, 0,
			  0);

	if (!ret)
		fv_forget(&counters->obj);
	return ret;
}

static int attach_mcast(struct ib_qp *qp, union ib_gid *gid, u16 lid)
{
	return fv_call(FV_attach_mcast, qp->qp_num, NULL, lid,
		       be64_to_cpu(gid->global.interface_id), 0, 0);
}

static int detach_mcast(struct ib_qp *qp, union ib_gid *gid, u16 lid)
{
	return fv_call(FV_detach_mcast, qp->qp_num, NULL, lid,
		       be64_to_cpu(gid->global.interface_id), 0, 0);
}

const struct ib_device_ops fv_flow_ops = {
	.attach_mcast = attach_mcast,
	.create_counters = create_counters,
	.create_flow = create_flow,
	.destroy_counters = destroy_counters,
	.destroy_flow = destroy_flow,
	.destroy_flow_action = destroy_flow_action,
	.detach_mcast = detach_mcast,
	.read_counters = read_counters,

	INIT_RDMA_OBJ_SIZE(ib_counters, fv_counters, ib),
};
