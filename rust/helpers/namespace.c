// SPDX-License-Identifier: GPL-2.0
/* Helpers for network namespaces (references, that of the current task) and interface numbers. */
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <net/net_namespace.h>
#include "helpers.h"

struct net *rdma_helper_get_net(struct net *net)
{
	return get_net(net);
}

struct net *rdma_helper_maybe_get_net(struct net *net)
{
	return maybe_get_net(net);
}

void rdma_helper_put_net(struct net *net)
{
	put_net(net);
}

struct net *rdma_helper_init_net(void)
{
	return &init_net;
}

struct net *rdma_helper_current_net(void)
{
	/* A task that exits gives its namespaces up before it closes the last files. */
	return current->nsproxy ? current->nsproxy->net_ns : NULL;
}

int rdma_helper_netdev_ifindex(const struct net_device *dev)
{
	return READ_ONCE(dev->ifindex);
}
