// SPDX-License-Identifier: GPL-2.0
/*
 * fakeverbs: a driver of no hardware, in C, with every operation that user space can
 * reach through uverbs, and with definitions of its own. It carries no data: each
 * operation checks what it is given, and tells it in its answer and in a list
 * (knobs.c, which also has what a test can do to the device).
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/workqueue.h>
#include <rdma/ib_user_verbs.h>
#include "fakeverbs.h"

static bool wrong_def;
module_param(wrong_def, bool, 0644);
MODULE_PARM_DESC(wrong_def, "devices registered from now on redefine an attribute of the core, which is refused");

struct fv_device {
	struct ib_device ib;
};

/* Protects the pointer, and serialises registration. */
static DEFINE_MUTEX(registration);
static struct fv_device *device;

static int query_device(struct ib_device *ib, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	attr->fw_ver = 7;
	attr->sys_image_guid = ib->node_guid;
	attr->max_mr_size = ~0ULL;
	attr->page_size_cap = PAGE_SIZE;
	attr->vendor_id = 0xfa4e;
	attr->device_cap_flags = IB_DEVICE_XRC | IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MANAGED_FLOW_STEERING;
	attr->max_qp = 1000;
	attr->max_qp_wr = FV_MAX_WR;
	attr->max_send_sge = FV_MAX_SGE;
	attr->max_recv_sge = FV_MAX_SGE;
	attr->max_cq = 1000;
	attr->max_cqe = FV_MAX_WR;
	attr->max_mr = 1000;
	attr->max_pd = 1000;
	attr->max_mw = 1000;
	attr->max_ah = 1000;
	attr->max_srq = 1000;
	attr->max_srq_wr = FV_MAX_WR;
	attr->max_srq_sge = FV_MAX_SGE;
	attr->max_pkeys = 1;
	attr->max_qp_rd_atom = 16;
	attr->max_qp_init_rd_atom = 16;
	attr->max_wq_type_rq = 100;
	attr->max_dm_size = FV_MAX_DM;
	attr->rss_caps.supported_qpts = BIT(IB_QPT_RAW_PACKET);
	attr->rss_caps.max_rwq_indirection_tables = 100;
	attr->rss_caps.max_rwq_indirection_table_size = 128;
	attr->tm_caps.max_num_tags = 64;
	attr->cq_caps.max_cq_moderation_count = 100;
	attr->cq_caps.max_cq_moderation_period = 200;
	/* The core's own call while it registers has no driver data. */
	return fv_call(FV_query_device, 0, udata, 0, 0, 0, 0);
}

static int query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	attr->state = IB_PORT_ACTIVE;
	attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	attr->gid_tbl_len = 2;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = 1 << 20;
	attr->lid = 5;
	attr->sm_lid = 1;
	return fv_call(FV_query_port, port, NULL, 0, 0, 0, 0);
}

static int query_port_speed(struct ib_device *ib, u32 port, u64 *speed)
{
	*speed = 1000;
	return fv_call(FV_query_port_speed, port, NULL, 0, 0, 0, 0);
}

/* Of the InfiniBand protocol, but without MADs: nobody asks for a subnet manager. */
static int get_port_immutable(struct ib_device *ib, u32 port,
			      struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = 2;
	immutable->pkey_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_CAP_PROT_IB;
	return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	*pkey = 0xffff;
	return index ? -EINVAL : 0;
}

static int query_gid(struct ib_device *ib, u32 port, int index,
		     union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (!index) {
		gid->global.subnet_prefix = cpu_to_be64(0xfe80ULL << 48);
		gid->global.interface_id = ib->node_guid;
	}
	return 0;
}

static const struct ib_device_ops device_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,
	.uverbs_abi_ver = 1,

	.get_link_layer = get_link_layer,
	.get_port_immutable = get_port_immutable,
	.query_device = query_device,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.query_port = query_port,
	.query_port_speed = query_port_speed,
};

int fv_register(void)
{
	struct fv_device *new;
	int ret;

	mutex_lock(&registration);
	if (device) {
		ret = -EEXIST;
		goto out;
	}
	new = ib_alloc_device(fv_device, ib);
	if (!new) {
		ret = -ENOMEM;
		goto out;
	}
	ib_set_device_ops(&new->ib, &device_ops);
	ib_set_device_ops(&new->ib, &fv_object_ops);
	ib_set_device_ops(&new->ib, &fv_queue_ops);
	ib_set_device_ops(&new->ib, &fv_flow_ops);
	ib_set_device_ops(&new->ib, &fv_comp_cntr_ops);
	new->ib.driver_def = wrong_def ? fv_wrong_defs : fv_defs;
	new->ib.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POLL_CQ) |
				   BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ) |
				   BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				   BIT_ULL(IB_USER_VERBS_CMD_POST_RECV) |
				   BIT_ULL(IB_USER_VERBS_CMD_POST_SRQ_RECV);
	new->ib.node_type = RDMA_NODE_IB_CA;
	new->ib.node_guid = cpu_to_be64(0xfa4e000000000001ULL);
	new->ib.phys_port_cnt = 1;
	new->ib.num_comp_vectors = 2;
	ret = ib_register_device(&new->ib, "fakeverbs%d", NULL);
	if (ret)
		ib_dealloc_device(&new->ib);
	else
		device = new;
out:
	mutex_unlock(&registration);
	return ret;
}

void fv_unregister(void)
{
	mutex_lock(&registration);
	if (device) {
		ib_unregister_device(&device->ib);
		fv_end_left();
		ib_dealloc_device(&device->ib);
		device = NULL;
		WARN_ON(fv_objects_left());
	}
	mutex_unlock(&registration);
}

static void unregister_work(struct work_struct *work)
{
	fv_unregister();
}
static DECLARE_WORK(work, unregister_work);

void fv_unregister_later(void)
{
	schedule_work(&work);
}

void fv_disassociate(void)
{
	mutex_lock(&registration);
	if (device)
		rdma_user_mmap_disassociate(&device->ib);
	mutex_unlock(&registration);
}

void fv_port_event(enum ib_event_type type)
{
	struct ib_event event = { .event = type, .element.port_num = 1 };

	mutex_lock(&registration);
	if (device) {
		event.device = &device->ib;
		ib_dispatch_event(&event);
	}
	mutex_unlock(&registration);
}

static int __init fakeverbs_init(void)
{
	int ret = fv_knobs_init();

	if (ret)
		return ret;
	ret = fv_register();
	if (ret)
		fv_knobs_exit();
	return ret;
}

static void __exit fakeverbs_exit(void)
{
	flush_work(&work);
	fv_unregister();
	fv_knobs_exit();
}

module_init(fakeverbs_init);
module_exit(fakeverbs_exit);
MODULE_DESCRIPTION("A driver of no hardware with every operation of user verbs");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS("DMA_BUF");
