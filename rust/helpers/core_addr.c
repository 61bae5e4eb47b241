// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: routes, neighbours and bonds. */
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/wait_bit.h>
#include <net/addrconf.h>
#include <net/ip6_route.h>
#include <net/neighbour.h>
#include <net/netevent.h>
#include <net/route.h>
#include "helpers.h"

struct dst_entry *rdma_helper_reach4(struct net *net, int oif, __be32 *saddr,
				     __be32 daddr)
{
	struct flowi4 fl = {
		.flowi4_oif = oif,
		.saddr = *saddr,
		.daddr = daddr,
	};
	struct rtable *rt = ip_route_output_key(net, &fl);

	*saddr = fl.saddr;
	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

struct dst_entry *rdma_helper_reach6(struct net *net, int oif, void *saddr,
				     const void *daddr)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl = {
		.flowi6_oif = oif,
		.saddr = *(const struct in6_addr *)saddr,
		.daddr = *(const struct in6_addr *)daddr,
	};
	struct dst_entry *dst = ip6_dst_lookup_flow(net, NULL, &fl, NULL);

	*(struct in6_addr *)saddr = fl.saddr;
	return dst;
#else
	return ERR_PTR(-EADDRNOTAVAIL);
#endif
}

int rdma_helper_hop_limit4(const struct dst_entry *dst)
{
	return ip4_dst_hoplimit(dst);
}

int rdma_helper_hop_limit6(struct dst_entry *dst)
{
#if IS_ENABLED(CONFIG_IPV6)
	return ip6_dst_hoplimit(dst);
#else
	return 0;
#endif
}

bool rdma_helper_is_local4(const struct dst_entry *dst)
{
	return dst_rtable(dst)->rt_type == RTN_LOCAL;
}

bool rdma_helper_is_local6(const struct dst_entry *dst)
{
	return dst_rt6_info(dst)->rt6i_flags & RTF_LOCAL;
}

bool rdma_helper_has_gateway4(const struct dst_entry *dst)
{
	return dst_rtable(dst)->rt_uses_gateway;
}

bool rdma_helper_has_gateway6(const struct dst_entry *dst)
{
	return dst_rt6_info(dst)->rt6i_flags & RTF_GATEWAY;
}

void *rdma_helper_neigh_lookup(const struct dst_entry *dst,
					   const void *daddr)
{
	return dst_neigh_lookup(dst, daddr);
}

bool rdma_helper_neigh_is_valid(const void *neigh)
{
	return READ_ONCE(((const struct neighbour *)neigh)->nud_state) & NUD_VALID;
}

void rdma_helper_neigh_id(const void *neigh, unsigned long *net, u32 *ifindex, u32 *family,
			  u8 (*address)[16])
{
	const struct neighbour *n = neigh;

	*net = (unsigned long)dev_net(n->dev);
	*ifindex = n->dev->ifindex;
	*family = n->tbl->family;
	memcpy(address, n->primary_key, min_t(u32, n->tbl->key_len, sizeof(*address)));
}

void rdma_helper_neigh_probe(void *neigh)
{
	neigh_event_send(neigh, NULL);
}

void rdma_helper_neigh_addr(char *addr, void *neigh)
{
	neigh_ha_snapshot(addr, neigh, ((struct neighbour *)neigh)->dev);
}

void rdma_helper_neigh_release(void *neigh)
{
	neigh_release(neigh);
}

int rdma_helper_register_netevent(struct notifier_block *nb)
{
	return register_netevent_notifier(nb);
}

void rdma_helper_unregister_netevent(struct notifier_block *nb)
{
	unregister_netevent_notifier(nb);
}

bool rdma_helper_wait_for_change(atomic_t *count, int seen, long timeout)
{
	return wait_var_event_timeout(count, atomic_read(count) != seen, timeout);
}

void rdma_helper_change(atomic_t *count)
{
	atomic_inc(count);
	smp_mb__after_atomic();
	wake_up_var(count);
}

struct net_device *rdma_helper_dev_of_ip4(struct net *net, __be32 addr)
{
	return __ip_dev_find(net, addr, false);
}

bool rdma_helper_dev_has_ip6(struct net *net, const void *addr,
			     struct net_device *dev)
{
	return IS_ENABLED(CONFIG_IPV6) && ipv6_chk_addr(net, addr, dev, 1);
}

struct net_device *rdma_helper_first_netdev_rcu(struct net *net)
{
	return list_first_or_null_rcu(&net->dev_base_head, struct net_device,
				      dev_list);
}

struct net_device *rdma_helper_next_netdev_rcu(struct net_device *dev)
{
	return next_net_device_rcu(dev);
}

struct net_device *rdma_helper_dev_get_by_index(struct net *net, int ifindex)
{
	return dev_get_by_index(net, ifindex);
}

const unsigned char *rdma_helper_netdev_broadcast(const struct net_device *dev)
{
	return dev->broadcast;
}

void rdma_helper_skb_reset_mac_header(struct sk_buff *skb)
{
	skb_reset_mac_header(skb);
}

struct net_device *rdma_helper_xmit_slave(struct net_device *master,
					  struct sk_buff *skb, bool all)
{
	return netdev_get_xmit_slave(master, skb, all);
}
