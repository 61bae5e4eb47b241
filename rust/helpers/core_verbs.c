// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: verbs objects and their tracepoints. */
#include <linux/ethtool.h>
#include <linux/list.h>
#include <linux/netdevice.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>
#include <rdma/ib_verbs.h>
#include <trace/events/rdma_core.h>
#include "helpers.h"

void *rdma_helper_zalloc_obj(struct ib_device *dev, size_t size, gfp_t gfp,
			     bool numa)
{
	return rdma_zalloc_obj(dev, size, gfp, numa);
}

void rdma_helper_qp_init(struct ib_qp *qp)
{
	spin_lock_init(&qp->mr_lock);
#ifdef RDMA_HAS_COMP_CNTR
	xa_init(&qp->comp_cntrs);
#endif
}

/* Detaches the completion counters from a queue pair that the driver has destroyed. */
void rdma_helper_qp_detach_comp_cntrs(struct ib_qp *qp)
{
#ifdef RDMA_HAS_COMP_CNTR
	struct ib_comp_cntr *counter;
	unsigned long ops;

	xa_for_each(&qp->comp_cntrs, ops, counter)
		atomic_dec(&counter->usecnt);
	xa_destroy(&qp->comp_cntrs);
#endif
}

void rdma_helper_xrcd_init_rwsem(struct rw_semaphore *sem)
{
	init_rwsem(sem);
}

void rdma_helper_qp_list_add(struct list_head *entry, struct list_head *head)
{
	list_add(entry, head);
}

void rdma_helper_qp_list_del(struct list_head *entry)
{
	list_del(entry);
}

bool rdma_helper_netdev_is_registered(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) == NETREG_REGISTERED;
}

int rdma_helper_link_settings(struct net_device *dev, u32 *mbps, u32 *lanes)
{
	struct ethtool_link_ksettings settings = {};
	int ret = __ethtool_get_link_ksettings(dev, &settings);

	*mbps = settings.base.speed;
	*lanes = settings.lanes;
	return ret;
}

struct net_device *rdma_helper_alloc_netdev(size_t sizeof_priv, const char *name,
					    unsigned char name_assign_type,
					    void (*setup)(struct net_device *),
					    unsigned int txqs, unsigned int rxqs)
{
	return alloc_netdev_mqs(sizeof_priv, name, name_assign_type, setup, txqs,
				rxqs);
}

void rdma_helper_trace_mr_alloc(struct ib_pd *pd, u32 type, u32 max_sg,
				struct ib_mr *mr)
{
	trace_mr_alloc(pd, type, max_sg, mr);
}

void rdma_helper_trace_mr_integ_alloc(struct ib_pd *pd, u32 max_data_sg,
				      u32 max_meta_sg, struct ib_mr *mr)
{
	trace_mr_integ_alloc(pd, max_data_sg, max_meta_sg, mr);
}

void rdma_helper_trace_mr_dereg(struct ib_mr *mr)
{
	trace_mr_dereg(mr);
}

void rdma_helper_trace_cq_drain_complete(struct ib_cq *cq)
{
	trace_cq_drain_complete(cq);
}

void rdma_helper_trace_cq_process(struct ib_cq *cq)
{
	trace_cq_process(cq);
}

void rdma_helper_trace_cq_poll(struct ib_cq *cq, int wanted, int polled)
{
	trace_cq_poll(cq, wanted, polled);
}
