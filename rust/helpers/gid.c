// SPDX-License-Identifier: GPL-2.0
/* Helpers for GID tables: upper network devices, and IP addresses. */
#include <linux/inetdevice.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <net/addrconf.h>
#include <net/bonding.h>
#include <net/if_inet6.h>
#include <rdma/ib_verbs.h>
#include "helpers.h"

unsigned short rdma_helper_netdev_dev_id(const struct net_device *dev)
{
	return dev->dev_id;
}

bool rdma_helper_netdev_has_lower(const struct net_device *dev)
{
	return !list_empty(&dev->adj_list.lower);
}

bool rdma_helper_netif_is_bond_slave(const struct net_device *dev)
{
	return netif_is_bond_slave(dev);
}

bool rdma_helper_netif_is_bond_master(const struct net_device *dev)
{
	return netif_is_bond_master(dev);
}

struct net_device *rdma_helper_bond_active_slave_rcu(struct net_device *dev)
{
	return bond_option_active_slave_get_rcu(netdev_priv(dev));
}

int rdma_helper_walk_uppers_rcu(struct net_device *dev,
				int (*fn)(struct net_device *upper,
					  struct netdev_nested_priv *priv),
				void *data)
{
	struct netdev_nested_priv priv = { .data = data };

	return netdev_walk_all_upper_dev_rcu(dev, fn, &priv);
}

int rdma_helper_walk_lowers_rcu(struct net_device *dev,
				int (*fn)(struct net_device *lower,
					  struct netdev_nested_priv *priv),
				void *data)
{
	struct netdev_nested_priv priv = { .data = data };

	return netdev_walk_all_lower_dev_rcu(dev, fn, &priv);
}

void *rdma_helper_nested_data(const struct netdev_nested_priv *priv)
{
	return priv->data;
}

int rdma_helper_walk_ipv4(struct net_device *dev,
			  int (*fn)(void *data, const void *addr), void *data)
{
	const struct in_ifaddr *ifa;
	struct in_device *in_dev;
	int ret = 0;

	rcu_read_lock();
	in_dev = __in_dev_get_rcu(dev);
	if (in_dev) {
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			ret = fn(data, &ifa->ifa_address);
			if (ret)
				break;
		}
	}
	rcu_read_unlock();
	return ret;
}

/*
 * Returns whether an address is being removed. Notifiers are called before it is removed from the
 * list of its device, and not again afterwards.
 */
static bool is_going(const struct inet6_ifaddr *ifp)
{
	return READ_ONCE(ifp->state) == INET6_IFADDR_STATE_DEAD;
}

int rdma_helper_walk_ipv6(struct net_device *dev,
			  int (*fn)(void *data, const void *addr), void *data)
{
	struct inet6_ifaddr *ifp;
	struct inet6_dev *in6_dev;
	int ret = 0;

	if (!IS_ENABLED(CONFIG_IPV6))
		return 0;
	in6_dev = in6_dev_get(dev);
	if (!in6_dev)
		return 0;
	read_lock_bh(&in6_dev->lock);
	list_for_each_entry(ifp, &in6_dev->addr_list, if_list) {
		if (is_going(ifp))
			continue;
		ret = fn(data, &ifp->addr);
		if (ret)
			break;
	}
	read_unlock_bh(&in6_dev->lock);
	in6_dev_put(in6_dev);
	return ret;
}

bool rdma_helper_has_ipv4(struct net_device *dev, const void *addr)
{
	__be32 wanted = get_unaligned((const __be32 *)addr);
	const struct in_ifaddr *ifa;
	struct in_device *in_dev;
	bool found = false;

	rcu_read_lock();
	in_dev = __in_dev_get_rcu(dev);
	if (in_dev) {
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			found = ifa->ifa_address == wanted;
			if (found)
				break;
		}
	}
	rcu_read_unlock();
	return found;
}

bool rdma_helper_has_ipv6(struct net_device *dev, const void *addr)
{
	struct inet6_ifaddr *ifp;
	struct inet6_dev *in6_dev;
	bool found = false;

	if (!IS_ENABLED(CONFIG_IPV6))
		return false;
	in6_dev = in6_dev_get(dev);
	if (!in6_dev)
		return false;
	read_lock_bh(&in6_dev->lock);
	list_for_each_entry(ifp, &in6_dev->addr_list, if_list) {
		found = !memcmp(&ifp->addr, addr, sizeof(ifp->addr)) &&
			!is_going(ifp);
		if (found)
			break;
	}
	read_unlock_bh(&in6_dev->lock);
	in6_dev_put(in6_dev);
	return found;
}

int rdma_helper_register_inetaddr_notifier(struct notifier_block *nb)
{
	return register_inetaddr_notifier(nb);
}

void rdma_helper_unregister_inetaddr_notifier(struct notifier_block *nb)
{
	unregister_inetaddr_notifier(nb);
}

int rdma_helper_register_inet6addr_notifier(struct notifier_block *nb)
{
	return IS_ENABLED(CONFIG_IPV6) ? register_inet6addr_notifier(nb) : 0;
}

void rdma_helper_unregister_inet6addr_notifier(struct notifier_block *nb)
{
	if (IS_ENABLED(CONFIG_IPV6))
		unregister_inet6addr_notifier(nb);
}

struct net_device *rdma_helper_ifa_dev(const void *ifa)
{
	return ((const struct in_ifaddr *)ifa)->ifa_dev->dev;
}

struct net_device *rdma_helper_ifa6_dev(const void *ifa)
{
	return ((const struct inet6_ifaddr *)ifa)->idev->dev;
}

const void *rdma_helper_ifa_address(const void *ifa)
{
	return &((const struct in_ifaddr *)ifa)->ifa_address;
}

const void *rdma_helper_ifa6_address(const void *ifa)
{
	return &((const struct inet6_ifaddr *)ifa)->addr;
}

bool rdma_helper_protocol_roce(const struct ib_device *dev, u32 port)
{
	return rdma_protocol_roce(dev, port);
}

bool rdma_helper_protocol_roce_v1(const struct ib_device *dev, u32 port)
{
	return rdma_protocol_roce_eth_encap(dev, port);
}

bool rdma_helper_protocol_roce_v2(const struct ib_device *dev, u32 port)
{
	return rdma_protocol_roce_udp_encap(dev, port);
}

bool rdma_helper_protocol_iwarp(const struct ib_device *dev, u32 port)
{
	return rdma_protocol_iwarp(dev, port);
}

bool rdma_helper_cap_roce_gid_table(const struct ib_device *dev, u32 port)
{
	return rdma_cap_roce_gid_table(dev, port);
}
