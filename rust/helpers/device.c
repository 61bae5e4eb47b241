// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: devices and clients. */
#include <linux/capability.h>
#include <linux/cc_platform.h>
#include <linux/device.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/netlink.h>
#include <linux/rculist.h>
#include <linux/scatterlist.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include "helpers.h"

void rdma_helper_ib_device_init(struct ib_device *dev)
{
	INIT_LIST_HEAD(&dev->event_handler_list);
	init_rwsem(&dev->event_handler_rwsem);
	spin_lock_init(&dev->qp_open_list_lock);
	init_rwsem(&dev->client_data_rwsem);
	xa_init_flags(&dev->client_data, XA_FLAGS_ALLOC);
	mutex_init(&dev->unregistration_lock);
	rwlock_init(&dev->cache_lock);
	spin_lock_init(&dev->cq_pools_lock);
	init_completion(&dev->unreg_completion);
	mutex_init(&dev->compat_devs_mutex);
	xa_init_flags(&dev->compat_devs, XA_FLAGS_ALLOC);
	mutex_init(&dev->subdev_lock);
	INIT_LIST_HEAD(&dev->subdev_list_head);
	INIT_LIST_HEAD(&dev->subdev_list);
}

void rdma_helper_ib_device_fini(struct ib_device *dev)
{
	mutex_destroy(&dev->subdev_lock);
	mutex_destroy(&dev->unregistration_lock);
	mutex_destroy(&dev->compat_devs_mutex);
	xa_destroy(&dev->compat_devs);
	xa_destroy(&dev->client_data);
}

void rdma_helper_ib_port_data_init(struct ib_port_data *port)
{
	spin_lock_init(&port->pkey_list_lock);
	INIT_LIST_HEAD(&port->pkey_list);
	spin_lock_init(&port->netdev_lock);
	INIT_HLIST_NODE(&port->ndev_hash_link);
}

/* The type of a head differs between kernels. */
void rdma_helper_kfree_rcu(void *head, void *ptr)
{
	kvfree_call_rcu(head, ptr);
}

int rdma_helper_refcount_read(const refcount_t *count)
{
	return refcount_read(count);
}

bool rdma_helper_hlist_unhashed(const struct hlist_node *node)
{
	return hlist_unhashed(node);
}

void rdma_helper_hlist_add_rcu(struct hlist_node *node, struct hlist_head *head)
{
	hlist_add_head_rcu(node, head);
}

void rdma_helper_hlist_del_rcu(struct hlist_node *node)
{
	hlist_del_init_rcu(node);
}

struct hlist_node *rdma_helper_hlist_first_rcu(struct hlist_head *head)
{
	return rcu_dereference(hlist_first_rcu(head));
}

struct hlist_node *rdma_helper_hlist_next_rcu(struct hlist_node *node)
{
	return rcu_dereference(hlist_next_rcu(node));
}

struct net *rdma_helper_read_pnet(const possible_net_t *pnet)
{
	return read_pnet(pnet);
}

void rdma_helper_write_pnet(possible_net_t *pnet, struct net *net)
{
	write_pnet(pnet, net);
}

const struct ns_common *rdma_helper_net_ns_common(struct net *net)
{
	return to_ns_common(net);
}

const struct kobj_ns_type_operations *rdma_helper_net_ns_type(void)
{
	return &net_ns_type_operations;
}

bool rdma_helper_net_capable(const struct net *net, int cap)
{
	return ns_capable(net->user_ns, cap);
}

bool rdma_helper_skb_net_capable(const struct sk_buff *skb, const struct net *net,
				 int cap)
{
	return netlink_ns_capable(skb, net->user_ns, cap);
}

struct net *rdma_helper_net_by_fd(int fd)
{
	return get_net_ns_by_fd(fd);
}

int rdma_helper_register_pernet_device(struct pernet_operations *ops)
{
	return register_pernet_device(ops);
}

void rdma_helper_unregister_pernet_device(struct pernet_operations *ops)
{
	unregister_pernet_device(ops);
}

void rdma_helper_dev_set_uevent_suppress(struct device *dev, bool on)
{
	dev_set_uevent_suppress(dev, on);
}

/* What the rdma cgroup controller shows of a device. */
void rdma_helper_rdmacg_describe(struct ib_device *dev)
{
#ifdef CONFIG_CGROUP_RDMA
	dev->cg_device.name = dev->name;
#ifdef RDMA_HAS_CGROUP_INDEX
	dev->cg_device.index = dev->index;
#endif
#endif
}

bool rdma_helper_dma_may_bounce(void)
{
	return cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT);
}

void rdma_helper_netdev_hold(struct net_device *dev, netdevice_tracker *tracker)
{
	netdev_hold(dev, tracker, GFP_ATOMIC);
}

void rdma_helper_netdev_put(struct net_device *dev, netdevice_tracker *tracker)
{
	netdev_put(dev, tracker);
}

/* Call under rcu_read_lock(). */
bool rdma_helper_netdev_has_ipv4(const struct net_device *dev)
{
	const struct in_device *in = __in_dev_get_rcu(dev);

	return in && rcu_access_pointer(in->ifa_list);
}

bool rdma_helper_netif_is_lag(const struct net_device *dev)
{
	return netif_is_lag_master(dev) || netif_is_lag_port(dev);
}

void rdma_helper_sg_map_virtual(struct scatterlist *sg)
{
	sg_dma_address(sg) = (uintptr_t)sg_virt(sg);
	sg_dma_len(sg) = sg->length;
}

struct scatterlist *rdma_helper_sg_next(struct scatterlist *sg)
{
	return sg_next(sg);
}
