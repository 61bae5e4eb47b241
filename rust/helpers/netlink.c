// SPDX-License-Identifier: GPL-2.0
/* Helpers for netlink and restrack; see helpers.h. */
#include <linux/netdevice.h>
#include <net/netlink.h>
#include <net/sock.h>
#include "helpers.h"

struct net *rdma_helper_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}

void rdma_helper_sock_set_sndtimeo(struct sock *sk, long jiffies)
{
	WRITE_ONCE(sk->sk_sndtimeo, jiffies);
}

struct sk_buff *rdma_helper_nlmsg_new_default(gfp_t flags)
{
	return nlmsg_new(NLMSG_DEFAULT_SIZE, flags);
}

int rdma_helper_nlmsg_multicast(struct sock *sk, struct sk_buff *skb,
				u32 portid, unsigned int group, gfp_t flags)
{
	return nlmsg_multicast(sk, skb, portid, group, flags);
}

struct net_device *rdma_helper_dev_get_by_name(struct net *net, const char *name)
{
	return dev_get_by_name(net, name);
}
