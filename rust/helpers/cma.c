// SPDX-License-Identifier: GPL-2.0
/* For rdma_cm: ports of devices, addresses and routes of the IP stack. */
#include <linux/capability.h>
#include <linux/if_vlan.h>
#include <linux/inetdevice.h>
#include <linux/igmp.h>
#include <linux/rtnetlink.h>
#include <net/ip.h>
#include <net/ip_fib.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/neighbour.h>
#include <net/route.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>
#include "helpers.h"

/* A bit for each answer about a port, or 0 if the device does not have it. */
u32 rdma_helper_cma_port(struct ib_device *device, u32 port)
{
	u32 caps = 0;

	if (!rdma_is_port_valid(device, port))
		return 0;
	caps |= rdma_cap_ib_cm(device, port) << 0;
	caps |= rdma_cap_iw_cm(device, port) << 1;
	caps |= rdma_protocol_roce(device, port) << 2;
	caps |= rdma_protocol_roce_udp_encap(device, port) << 3;
	caps |= rdma_protocol_ib(device, port) << 4;
	caps |= rdma_protocol_iwarp(device, port) << 5;
	caps |= rdma_cap_ib_sa(device, port) << 6;
	caps |= rdma_cap_ib_mcast(device, port) << 7;
	caps |= rdma_cap_eth_ah(device, port) << 8;
	caps |= rdma_cap_af_ib(device, port) << 9;
	caps |= rdma_cap_opa_ah(device, port) << 10;
	return caps;
}

bool rdma_helper_cma_capable(int cap)
{
	return capable(cap);
}

void rdma_helper_cma_port_range(const struct net *net, int *low, int *high)
{
	inet_get_local_port_range(net, low, high);
}

bool rdma_helper_cma_v6_only(const struct net *net)
{
#if IS_ENABLED(CONFIG_IPV6)
	return READ_ONCE(net->ipv6.sysctl.bindv6only);
#else
	return false;
#endif
}

/* Whether packets from saddr to daddr leave by the device. Under RCU. */
bool rdma_helper_cma_route4(struct net_device *dev, __be32 saddr, __be32 daddr)
{
	struct flowi4 fl4 = {
		.flowi4_oif = dev->ifindex, .daddr = daddr, .saddr = saddr,
	};
	struct fib_result res;

	return !fib_lookup(dev_net(dev), &fl4, &res, 0) && FIB_RES_DEV(res) == dev;
}

bool rdma_helper_cma_route6(struct net_device *dev, const void *saddr, const void *daddr)
{
#if IS_ENABLED(CONFIG_IPV6)
	int strict = ipv6_addr_type(daddr) & IPV6_ADDR_LINKLOCAL;
	struct rt6_info *rt = rt6_lookup(dev_net(dev), daddr, saddr, dev->ifindex, NULL, strict);
	bool same;

	if (!rt)
		return false;
	same = rt->rt6i_idev->dev == dev;
	ip6_rt_put(rt);
	return same;
#else
	return false;
#endif
}

/* The traffic class of a priority; -1 if the device has no classes. */
int rdma_helper_cma_tc(const struct net_device *dev, u32 prio)
{
	return dev->num_tc ? netdev_get_prio_tc_map(dev, prio) : -1;
}

/* The priority that a VLAN device writes into its tag. */
u32 rdma_helper_cma_vlan_prio(struct net_device *dev, u32 prio)
{
	return (vlan_dev_get_egress_qos_mask(dev, prio) & VLAN_PRIO_MASK) >> VLAN_PRIO_SHIFT;
}

/* What a neighbour is: its address, and its hardware address at present. */
void rdma_helper_cma_neigh(const void *info, struct rdma_helper_cma_neigh *copy)
{
	const struct neighbour *neigh = info;

	copy->net = dev_net(neigh->dev);
	copy->ifindex = neigh->dev->ifindex;
	copy->family = neigh->tbl->family;
	copy->len = min_t(u32, neigh->dev->addr_len, sizeof(copy->hardware));
	memcpy(copy->addr, neigh->primary_key, min_t(u32, neigh->tbl->key_len, sizeof(copy->addr)));
	memcpy(copy->hardware, neigh->ha, copy->len);
}
