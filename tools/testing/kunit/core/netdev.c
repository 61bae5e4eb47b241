// SPDX-License-Identifier: GPL-2.0
/* A network device for the suites. */
#include <linux/etherdevice.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>

struct net_device *rdma_kunit_netdev_up(void);
void rdma_kunit_netdev_down(struct net_device *dev);
void rdma_kunit_netdev_gone(struct net_device *dev);

static netdev_tx_t lose(struct sk_buff *skb, struct net_device *dev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops ops = { .ndo_start_xmit = lose };

/* A new one that is up, or NULL. */
struct net_device *rdma_kunit_netdev_up(void)
{
	struct net_device *dev;
	int ret;

	dev = alloc_netdev(0, "kunit%d", NET_NAME_UNKNOWN, ether_setup);
	if (!dev)
		return NULL;
	dev->netdev_ops = &ops;
	eth_hw_addr_random(dev);
	if (register_netdev(dev)) {
		free_netdev(dev);
		return NULL;
	}
	rtnl_lock();
	ret = dev_open(dev, NULL);
	rtnl_unlock();
	if (ret) {
		rdma_kunit_netdev_gone(dev);
		return NULL;
	}
	return dev;
}

void rdma_kunit_netdev_down(struct net_device *dev)
{
	rtnl_lock();
	dev_close(dev);
	rtnl_unlock();
}

void rdma_kunit_netdev_gone(struct net_device *dev)
{
	unregister_netdev(dev);
	free_netdev(dev);
}
