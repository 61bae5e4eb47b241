// SPDX-License-Identifier: GPL-2.0
/*
 * Helpers that tell whether packets are inspected on their way. RCU must be held around those that
 * return a device.
 */
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/string.h>
#include <net/addrconf.h>
#include <net/net_namespace.h>
#include <net/pkt_cls.h>
#include <net/rtnetlink.h>
#include <net/sch_generic.h>
#include "helpers.h"

#ifdef CONFIG_NETFILTER
/*
 * Whether a hook may inspect packets. Hooks of security modules, which some kernels have in every
 * namespace, only check who sent a packet.
 */
static bool is_rule(const struct nf_hook_ops *ops)
{
	return ops->hook_ops_type != NF_HOOK_OP_UNDEFINED ||
	       (ops->priority != NF_IP_PRI_SELINUX_FIRST && ops->priority != NF_IP_PRI_SELINUX_LAST);
}

static bool hooked(struct nf_hook_entries __rcu **hooks, unsigned int mask)
{
	const struct nf_hook_entries *entries;
	unsigned int hook, i;
	bool found = false;

	rcu_read_lock();
	for (hook = 0; hook < NF_INET_NUMHOOKS && !found; hook++) {
		entries = mask & BIT(hook) ? rcu_dereference(hooks[hook]) : NULL;
		for (i = 0; entries && i < entries->num_hook_entries && !found; i++)
			found = is_rule(READ_ONCE(nf_hook_entries_get_hook_ops(entries)[i]));
	}
	rcu_read_unlock();
	return found;
}
#endif

/* Whether netfilter has rules for sent packets (@sent), or for received ones. */
bool rdma_helper_net_inspects(struct net *net, bool v6, bool sent)
{
#ifdef CONFIG_NETFILTER
	unsigned int mask = sent ? BIT(NF_INET_LOCAL_OUT) | BIT(NF_INET_POST_ROUTING) :
				   BIT(NF_INET_PRE_ROUTING) | BIT(NF_INET_LOCAL_IN);

	return hooked(v6 ? net->nf.hooks_ipv6 : net->nf.hooks_ipv4, mask);
#else
	return false;
#endif
}

/* Whether netfilter has rules for frames that are bridged. */
bool rdma_helper_net_inspects_bridged(struct net *net)
{
#if defined(CONFIG_NETFILTER) && defined(CONFIG_NETFILTER_FAMILY_BRIDGE)
	return hooked(net->nf.hooks_bridge, ~0u);
#else
	return false;
#endif
}

/*
 * Whether the queueing discipline may have classifiers. This is not exact: it has classes, and there is
 * a classifier somewhere on this machine.
 */
static bool may_classify(struct net_device *dev)
{
#ifdef CONFIG_NET_CLS_ACT
	struct Qdisc *root;
	bool classes;

	if (!static_branch_unlikely(&tcf_sw_enabled_key))
		return false;
	rcu_read_lock();
	root = rcu_dereference(dev->qdisc);
	classes = root && root->ops->cl_ops;
	rcu_read_unlock();
	return classes;
#else
	return false;
#endif
}

/* Whether rules at a device inspect packets that it sends. */
bool rdma_helper_dev_inspects_sent(struct net_device *dev)
{
#ifdef CONFIG_NETFILTER_EGRESS
	if (rcu_access_pointer(dev->nf_hooks_egress))
		return true;
#endif
#ifdef CONFIG_NET_XGRESS
	if (rcu_access_pointer(dev->tcx_egress))
		return true;
#endif
	return may_classify(dev);
}

/* Whether rules at a device inspect packets that it receives. */
bool rdma_helper_dev_inspects_received(struct net_device *dev)
{
#ifdef CONFIG_NETFILTER_INGRESS
	if (rcu_access_pointer(dev->nf_hooks_ingress))
		return true;
#endif
#ifdef CONFIG_NET_XGRESS
	if (rcu_access_pointer(dev->tcx_ingress))
		return true;
#endif
	/* A generic XDP program. The driver handles native ones. */
	return rcu_access_pointer(dev->xdp_prog);
}

/* Whether the stack leaves it to the device to segment trains. */
bool rdma_helper_dev_passes_trains(struct net_device *dev)
{
	return READ_ONCE(dev->features) & NETIF_F_GSO_FRAGLIST;
}

/* The other end of a veth; NULL if this is none. (netkit, which has peers as well, runs programs.) */
struct net_device *rdma_helper_dev_peer(struct net_device *dev)
{
	const struct rtnl_link_ops *ops = READ_ONCE(dev->rtnl_link_ops);

	if (!dev->netdev_ops->ndo_get_peer_dev || !ops || strcmp(ops->kind, "veth"))
		return NULL;
	return dev->netdev_ops->ndo_get_peer_dev(dev);
}

/* What is known of devices that pass packets on. */
unsigned int rdma_helper_dev_kind(struct net_device *dev)
{
	if (netif_is_bridge_master(dev))
		return RDMA_DEV_BRIDGE;
	if (netif_is_bond_master(dev) || is_vlan_dev(dev))
		return RDMA_DEV_STACKED;
	if (netif_is_macvlan(dev))
		return RDMA_DEV_MACVLAN;
	return RDMA_DEV_OTHER;
}

/* Whether a device above, of a kind that is not known here, takes received packets. */
bool rdma_helper_dev_is_taken(struct net_device *dev)
{
	return rcu_access_pointer(dev->rx_handler) && !netif_is_bridge_port(dev) &&
	       !netif_is_bond_slave(dev) && !netif_is_macvlan_port(dev);
}

bool rdma_helper_dev_is_vrf_port(struct net_device *dev)
{
	return netif_is_l3_slave(dev);
}

/* Whether the host forwards packets that the device receives and that are not for itself. */
bool rdma_helper_dev_routes(struct net_device *dev, bool v6)
{
	struct in_device *in;
	bool forward = false;
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *in6;
#endif

	rcu_read_lock();
	if (!v6) {
		in = __in_dev_get_rcu(dev);
		forward = in && IN_DEV_FORWARD(in);
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (v6) {
		in6 = __in6_dev_get(dev);
		forward = in6 && READ_ONCE(in6->cnf.forwarding);
	}
#endif
	rcu_read_unlock();
	return forward;
}

bool rdma_helper_net_has_ip4(struct net *net, __be32 addr)
{
	return __ip_dev_find(net, addr, false);
}

bool rdma_helper_net_has_ip6(struct net *net, const void *addr)
{
#if IS_ENABLED(CONFIG_IPV6)
	return ipv6_chk_addr(net, addr, NULL, 1);
#else
	return false;
#endif
}

/* Iterates over the devices directly above, or below: @at is NULL at first. */
struct net_device *rdma_helper_dev_next_adjacent(struct net_device *dev, bool above,
						 struct list_head **at)
{
	if (!*at)
		*at = above ? &dev->adj_list.upper : &dev->adj_list.lower;
	return above ? netdev_upper_get_next_dev_rcu(dev, at) : netdev_next_lower_dev_rcu(dev, at);
}
