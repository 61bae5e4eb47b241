// SPDX-License-Identifier: GPL-2.0
/*
 * countdev: a driver of no hardware, in C, that has every kind of counter a core
 * knows: of the device and of ports, optional ones, counters bound to queue pairs,
 * and an agent of performance management. What it counts can be told beforehand,
 * so that the same script shows the same on the C core and on ours
 * (guest/09-core-counters.sh). Methods fail when asked to:
 *
 *   fail=METHOD     the method of this name fails, on port 2 if it is called for ports
 *
 * Each port has a file "command": "+TYPE" makes a queue pair (0 RC, 1 UC) that
 * belongs to the process, "iN" initialises the Nth of them, "-N" destroys it.
 */
#include <linux/module.h>
#include <linux/string.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>
#include <rdma/ib_sysfs.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

#define QPS 10
#define PORT_COUNTERS 5

/* Of the core's own headers. */
void rdma_restrack_set_name(struct rdma_restrack_entry *res,
			    const char *caller);

static int capabilities = 1 << 9;
module_param(capabilities, int, 0444);
MODULE_PARM_DESC(capabilities, "of the agent, in ClassPortInfo");
static int ports = 2;
module_param(ports, int, 0444);
MODULE_PARM_DESC(ports, "how many ports");
static int gids = 4;
module_param(gids, int, 0444);
MODULE_PARM_DESC(gids, "length of the GID tables, as query_port tells it");
static char *fail = "";
module_param(fail, charp, 0644);
MODULE_PARM_DESC(fail, "the method that fails");

struct counter {
	struct rdma_counter base;
	u32 mark;
};

#define MARK 0x5ca1ab1e

static struct ib_device *device;
static struct ib_pd *pd;
static struct ib_cq *cq;
static struct ib_qp *qps[QPS];
static int made;
static u32 last_counter;
static atomic_t living = ATOMIC_INIT(0);

static bool failing(const char *method)
{
	return sysfs_streq(fail, method);
}

/* What registration asks. */

static int query_device(struct ib_device *dev, struct ib_device_attr *attr,
			struct ib_udata *udata)
{
	attr->sys_image_guid = cpu_to_be64(0x0011223344556677ULL);
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY;
	attr->max_qp = QPS;
	return 0;
}

static int query_port(struct ib_device *dev, u32 port, struct ib_port_attr *attr)
{
	bool first = port == 1;

	if (failing("query_port") && !first)
		return -EIO;
	attr->state = first ? IB_PORT_ACTIVE : 9;
	attr->phys_state = first ? IB_PORT_PHYS_STATE_LINK_UP : 12;
	attr->active_width = first ? IB_WIDTH_4X : IB_WIDTH_1X;
	attr->active_speed = first ? IB_SPEED_EDR : IB_SPEED_SDR;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = IB_MTU_4096;
	attr->gid_tbl_len = gids;
	attr->pkey_tbl_len = first ? 3 : 0;
	attr->lid = 0x12;
	attr->lmc = 3;
	attr->sm_lid = 0xabcd;
	attr->sm_sl = 5;
	attr->port_cap_flags = 0x1234;
	return 0;
}

static int get_port_immutable(struct ib_device *dev, u32 port,
			      struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = gids < 0 ? 1 : gids;
	immutable->pkey_tbl_len = port == 1 ? 3 : 0;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_IB;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static int query_pkey(struct ib_device *dev, u32 port, u16 index, u16 *pkey)
{
	*pkey = index == 2 ? 0x7fff : 0xffff;
	return index < 3 ? 0 : -EINVAL;
}

static int query_gid(struct ib_device *dev, u32 port, int index,
		     union ib_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (!index) {
		gid->global.subnet_prefix = cpu_to_be64(0xfe80ULL << 48);
		gid->global.interface_id = cpu_to_be64(port);
	}
	return 0;
}

static enum rdma_link_layer get_link_layer(struct ib_device *dev, u32 port)
{
	return IB_LINK_LAYER_INFINIBAND;
}

static int modify_device(struct ib_device *dev, int mask,
			 struct ib_device_modify *modify)
{
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(dev->node_desc, modify->node_desc,
		       sizeof(dev->node_desc));
	return 0;
}

static void get_dev_fw_str(struct ib_device *dev, char *str)
{
	strscpy(str, "1.2.3", IB_FW_VERSION_NAME_MAX);
}

/* Counters of the device and of ports: 100 times the port, and the index. */

static const struct rdma_stat_desc device_descs[] = {
	{ .name = "device_a" },
	{ .name = "device_b" },
};

static const struct rdma_stat_desc port_descs[PORT_COUNTERS] = {
	{ .name = "port_a" },
	{ .name = "port_b" },
	{ .name = "port_c" },
	{ .name = "optional_x", .flags = IB_STAT_FLAG_OPTIONAL },
	{ .name = "optional_y", .flags = IB_STAT_FLAG_OPTIONAL },
};

static struct rdma_hw_stats *alloc_hw_device_stats(struct ib_device *dev)
{
	if (failing("alloc_hw_device_stats"))
		return NULL;
	return rdma_alloc_hw_stats_struct(device_descs,
					  ARRAY_SIZE(device_descs), 12);
}

static struct rdma_hw_stats *alloc_hw_port_stats(struct ib_device *dev,
						 u32 port)
{
	struct rdma_hw_stats *stats;

	if (failing("alloc_hw_port_stats") && port == 2)
		return NULL;
	stats = rdma_alloc_hw_stats_struct(port_descs, PORT_COUNTERS, 0);
	if (stats) {
		set_bit(3, stats->is_disabled);
		set_bit(4, stats->is_disabled);
	}
	return stats;
}

static int get_hw_stats(struct ib_device *dev, struct rdma_hw_stats *stats,
			u32 port, int index)
{
	int i;

	if (failing("get_hw_stats of the device") && !port)
		return -EREMOTEIO;
	if (failing("get_hw_stats") && port == 2)
		return -EIO;
	if (failing("get_hw_stats, some") && port == 2)
		return 1;
	for (i = 0; i < stats->num_counters; i++)
		stats->value[i] = 100 * port + i;
	return stats->num_counters;
}

static int modify_hw_stat(struct ib_device *dev, u32 port, unsigned int index,
			  bool enable)
{
	pr_info("countdev: port %u counter %u %s\n", port, index,
		enable ? "on" : "off");
	return failing("modify_hw_stat") ? -EPERM : 0;
}

/* The agent: its counters are the bytes 16, 17, 18 and so on, or 32 and so on. */

static int process_mad(struct ib_device *dev, int flags, u32 port,
		       const struct ib_wc *wc, const struct ib_grh *grh,
		       const struct ib_mad *in, struct ib_mad *out,
		       size_t *out_size, u16 *out_pkey_index)
{
	struct ib_class_port_info *info = (void *)(out->data + 40);
	u8 first;
	int i;

	if (in->mad_hdr.base_version != 1 || in->mad_hdr.class_version != 1 ||
	    in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    in->mad_hdr.method != IB_MGMT_METHOD_GET || wc || grh ||
	    flags != IB_MAD_IGNORE_MKEY || *out_size != sizeof(*out))
		return IB_MAD_RESULT_FAILURE;
	if (in->mad_hdr.attr_id == IB_PMA_CLASS_PORT_INFO) {
		/* Port 2 has an agent that does not say what it can. */
		if (in->data[41] || port == 2)
			return IB_MAD_RESULT_SUCCESS;
		info->capability_mask = cpu_to_be16(capabilities);
		return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
	}
	if (in->data[41] != port || failing("process_mad"))
		return IB_MAD_RESULT_FAILURE;
	first = in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS ? 16 : 32;
	for (i = 0; i < 128; i++)
		out->data[40 + i] = first + i;
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}

/* Counters of queue pairs: 1000 times the counter's number, and the index. */

static void counter_init(struct rdma_counter *base)
{
	container_of(base, struct counter, base)->mark = MARK;
}

static struct rdma_hw_stats *counter_alloc_stats(struct rdma_counter *base)
{
	if (failing("counter_alloc_stats"))
		return NULL;
	return rdma_alloc_hw_stats_struct(port_descs, PORT_COUNTERS, 0);
}

static int counter_update_stats(struct rdma_counter *base)
{
	int i;

	if (failing("counter_update_stats"))
		return -EIO;
	for (i = 0; i < PORT_COUNTERS; i++)
		base->stats->value[i] = 1000 * base->id + i;
	return 0;
}

static int counter_bind_qp(struct rdma_counter *base, struct ib_qp *qp, u32 port)
{
	if (failing("counter_bind_qp"))
		return -EPERM;
	if (!base->id) {
		base->id = ++last_counter;
		atomic_inc(&living);
	}
	qp->counter = base;
	pr_info("countdev: queue pair %u has counter %u of port %u%s\n",
		qp->qp_num, base->id, port,
		base->mode.bind_opcnt ? ", optional ones too" : "");
	return 0;
}

static int counter_unbind_qp(struct ib_qp *qp, u32 port)
{
	pr_info("countdev: queue pair %u leaves counter %u of port %u\n",
		qp->qp_num, qp->counter->id, port);
	if (failing("counter_unbind_qp"))
		return -EIO;
	qp->counter = NULL;
	return 0;
}

static int counter_dealloc(struct rdma_counter *base)
{
	WARN_ON(container_of(base, struct counter, base)->mark != MARK);
	/* No queue pair was ever bound to it. */
	if (!base->id)
		return 0;
	pr_info("countdev: counter %u goes, %d stay\n", base->id,
		atomic_dec_return(&living));
	return 0;
}

/* Objects, which are nothing but what the core makes of them. */

static int alloc_pd(struct ib_pd *new, struct ib_udata *udata)
{
	return 0;
}

static int dealloc_pd(struct ib_pd *old, struct ib_udata *udata)
{
	return 0;
}

static int create_cq(struct ib_cq *new, const struct ib_cq_init_attr *attr,
		     struct uverbs_attr_bundle *attrs)
{
	new->cqe = attr->cqe;
	return 0;
}

static int destroy_cq(struct ib_cq *old, struct ib_udata *udata)
{
	return 0;
}

static int create_qp(struct ib_qp *new, struct ib_qp_init_attr *attr,
		     struct ib_udata *udata)
{
	new->qp_num = 5 + made;
	return 0;
}

static int modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask,
		     struct ib_udata *udata)
{
	return 0;
}

static int destroy_qp(struct ib_qp *old, struct ib_udata *udata)
{
	return 0;
}

/* Files. */

static ssize_t hca_type_show(struct device *dev, struct device_attribute *attr,
			     char *page)
{
	return sysfs_emit(page, "countdev\n");
}
static DEVICE_ATTR_RO(hca_type);

static struct attribute *device_attrs[] = { &dev_attr_hca_type.attr, NULL };
static const struct attribute_group device_group = { .attrs = device_attrs };

static int add_qp(enum ib_qp_type type)
{
	struct ib_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ib_qp *qp;

	if (made == QPS)
		return -ENOSPC;
	qp = ib_create_qp(pd, &attr);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	/* As if a user had made it. */
	rdma_restrack_set_name(&qp->res, NULL);
	qps[made++] = qp;
	return 0;
}

static int init_qp(struct ib_qp *qp, u32 port)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = port,
	};

	return ib_modify_qp(qp, &attr,
			    IB_QP_STATE | IB_QP_PORT | IB_QP_PKEY_INDEX |
				    IB_QP_ACCESS_FLAGS);
}

static ssize_t command_show(struct ib_device *dev, u32 port,
			    struct ib_port_attribute *attr, char *page)
{
	return sysfs_emit(page, "port %u\n", port);
}

static ssize_t command_store(struct ib_device *dev, u32 port,
			     struct ib_port_attribute *attr, const char *data,
			     size_t count)
{
	int ret, n;

	if (count < 2 || data[1] < '0' || data[1] > '9')
		return -EINVAL;
	n = data[1] - '0';
	if (data[0] == '+') {
		ret = add_qp(n ? IB_QPT_UC : IB_QPT_RC);
		return ret ?: count;
	}
	if (!qps[n])
		return -ENOENT;
	if (data[0] == 'i') {
		ret = init_qp(qps[n], port);
		return ret ?: count;
	}
	ret = ib_destroy_qp(qps[n]);
	if (!ret)
		qps[n] = NULL;
	return ret ?: count;
}
static IB_PORT_ATTR_RW(command);

static struct attribute *command_attrs[] = { &ib_port_attr_command.attr, NULL };
static const struct attribute_group command_group = {
	.name = "countdev",
	.attrs = command_attrs,
};

/* A file without methods, and only on port 1. */
static struct ib_port_attribute mute = {
	.attr = { .name = "mute", .mode = 0644 },
};

static umode_t mute_visible(struct kobject *kobj, struct attribute *attr, int n)
{
	u32 port;

	if (ib_port_sysfs_get_ibdev_kobj(kobj, &port) != device)
		return 0;
	return port == 1 ? attr->mode : 0;
}

static struct attribute *mute_attrs[] = { &mute.attr, NULL };
static const struct attribute_group mute_group = {
	.is_visible = mute_visible,
	.attrs = mute_attrs,
};
static const struct attribute_group *port_groups[] = { &command_group,
						       &mute_group, NULL };

static const struct ib_device_ops ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_UNKNOWN,

	.alloc_hw_device_stats = alloc_hw_device_stats,
	.alloc_hw_port_stats = alloc_hw_port_stats,
	.alloc_pd = alloc_pd,
	.counter_alloc_stats = counter_alloc_stats,
	.counter_bind_qp = counter_bind_qp,
	.counter_dealloc = counter_dealloc,
	.counter_init = counter_init,
	.counter_unbind_qp = counter_unbind_qp,
	.counter_update_stats = counter_update_stats,
	.create_cq = create_cq,
	.create_qp = create_qp,
	.dealloc_pd = dealloc_pd,
	.destroy_cq = destroy_cq,
	.destroy_qp = destroy_qp,
	.device_group = &device_group,
	.get_dev_fw_str = get_dev_fw_str,
	.get_hw_stats = get_hw_stats,
	.get_link_layer = get_link_layer,
	.get_port_immutable = get_port_immutable,
	.modify_device = modify_device,
	.modify_hw_stat = modify_hw_stat,
	.modify_qp = modify_qp,
	.port_groups = port_groups,
	.process_mad = process_mad,
	.query_device = query_device,
	.query_gid = query_gid,
	.query_pkey = query_pkey,
	.query_port = query_port,

	.size_ib_cq = sizeof(struct ib_cq),
	.size_ib_pd = sizeof(struct ib_pd),
	.size_ib_qp = sizeof(struct ib_qp),
	.size_rdma_counter = sizeof(struct counter),
};

struct countdev {
	struct ib_device ib;
};

static int __init countdev_init(void)
{
	struct ib_cq_init_attr attr = { .cqe = 1 };
	struct countdev *new = ib_alloc_device(countdev, ib);
	int ret;

	if (!new)
		return -ENOMEM;
	device = &new->ib;
	ib_set_device_ops(device, &ops);
	device->node_type = RDMA_NODE_IB_CA;
	device->node_guid = cpu_to_be64(0x0102030405060708ULL);
	device->phys_port_cnt = ports;
	device->num_comp_vectors = 1;
	memset(device->node_desc, 'x', sizeof(device->node_desc));
	ret = ib_register_device(device, "count%d", NULL);
	if (ret)
		goto err_alloc;

	pd = ib_alloc_pd(device, 0);
	if (IS_ERR(pd)) {
		ret = PTR_ERR(pd);
		goto err_register;
	}
	cq = ib_create_cq(device, NULL, NULL, NULL, &attr);
	if (IS_ERR(cq)) {
		ret = PTR_ERR(cq);
		goto err_pd;
	}
	return 0;

err_pd:
	ib_dealloc_pd(pd);
err_register:
	ib_unregister_device(device);
err_alloc:
	ib_dealloc_device(device);
	return ret;
}

static void __exit countdev_exit(void)
{
	int i;

	for (i = 0; i < QPS; i++)
		if (qps[i])
			ib_destroy_qp(qps[i]);
	ib_destroy_cq(cq);
	ib_dealloc_pd(pd);
	ib_unregister_device(device);
	ib_dealloc_device(device);
	WARN_ON(atomic_read(&living));
}

module_init(countdev_init);
module_exit(countdev_exit);
MODULE_DESCRIPTION("A driver of no hardware with every kind of counter");
MODULE_LICENSE("GPL");
