// SPDX-License-Identifier: GPL-2.0
/* Helpers for modules that use the network stack. */
#include <linux/err.h>
#include <linux/if_vlan.h>
#include <linux/igmp.h>
#include <linux/inetdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rcupdate.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <net/addrconf.h>
#include <net/dst.h>
#include <net/gro.h>
#include <net/ip.h>
#include <net/ip6_fib.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/route.h>
#include <net/sock.h>
#include <net/udp_tunnel.h>
#include "helpers.h"

/* Packet buffers */

/* Returns the end of a linear packet; NULL if there is no room for @len bytes behind it. */
void *rdma_helper_skb_tail(const struct sk_buff *skb, unsigned int len)
{
	return len <= skb_tailroom(skb) ? skb_tail_pointer(skb) : NULL;
}

/* Appends @len bytes and returns their address; NULL if there is no room. */
void *rdma_helper_skb_put(struct sk_buff *skb, unsigned int len)
{
	return len <= skb_tailroom(skb) ? __skb_put(skb, len) : NULL;
}

/* The linear part must have @len bytes. */
void rdma_helper_skb_pull(struct sk_buff *skb, unsigned int len)
{
	__skb_pull(skb, len);
}

/* There must be @len bytes of headroom. */
void rdma_helper_skb_push(struct sk_buff *skb, unsigned int len)
{
	__skb_push(skb, len);
}

/* Returns whether the network header starts @len bytes before the data. */
bool rdma_helper_skb_is_before_data(const struct sk_buff *skb, unsigned int len)
{
	return skb_network_header(skb) + len == skb->data;
}

/*
 * Returns the number of bytes from the network header to the data, or a negative value if the
 * network header is not in front of the data.
 */
int rdma_helper_skb_before_data(const struct sk_buff *skb)
{
	int before = -skb_network_offset(skb);

	return before <= (int)skb_headroom(skb) ? before : -1;
}

/* Sets the protocol and the offsets of the headers, relative to the data. */
void rdma_helper_skb_set_headers(struct sk_buff *skb, __be16 protocol,
				 int network, int transport)
{
	WRITE_ONCE(skb->protocol, protocol);
	skb_set_network_header(skb, network);
	skb_set_transport_header(skb, transport);
}

/*
 * Removes the first skb from a list. A shared skb is cloned; if that fails, returns NULL and the
 * skb is lost.
 */
struct sk_buff *rdma_helper_skb_list_take(struct sk_buff **list, gfp_t flags)
{
	struct sk_buff *skb = *list;

	*list = skb->next;
	skb = skb_share_check(skb, flags);
	if (skb)
		skb->next = NULL;
	return skb;
}

struct sk_buff *rdma_helper_skb_clone(struct sk_buff *skb, gfp_t flags)
{
	return skb_clone(skb, flags);
}

void rdma_helper_kfree_skb(struct sk_buff *skb)
{
	kfree_skb(skb);
}

bool rdma_helper_skb_cloned(const struct sk_buff *skb)
{
	return skb_cloned(skb);
}

int rdma_helper_skb_linearize(struct sk_buff *skb)
{
	return skb_linearize(skb);
}

int rdma_helper_skb_unclone(struct sk_buff *skb, gfp_t flags)
{
	return skb_unclone(skb, flags);
}

void rdma_helper_skb_set_next(struct sk_buff *skb, struct sk_buff *next)
{
	skb->next = next;
}

void rdma_helper_kfree_skb_list(struct sk_buff *skb)
{
	kfree_skb_list(skb);
}

bool rdma_helper_skb_is_train(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST && skb_has_frag_list(skb);
}

void rdma_helper_skb_set_frag_list(struct sk_buff *skb, struct sk_buff *list)
{
	skb_shinfo(skb)->frag_list = list;
}

struct sk_buff *rdma_helper_skb_take_frag_list(struct sk_buff *skb)
{
	struct sk_buff *list = skb_shinfo(skb)->frag_list;
	unsigned int later = skb->data_len, i;

	/* A network device may have stored part of the first packet in fragments. */
	for (i = 0; i < skb_shinfo(skb)->nr_frags; i++)
		later -= skb_frag_size(&skb_shinfo(skb)->frags[i]);
	skb_frag_list_init(skb);
	skb->len -= later;
	skb->data_len -= later;
	/* GRO charged the memory of the other skbs here, which also charge it themselves. */
	skb_orphan(skb);
	skb->truesize = SKB_TRUESIZE(skb_end_offset(skb)) + skb->data_len;
	skb_gso_reset(skb);
	return list;
}

/*
 * Sets the GSO type of a train: a list of datagrams, each with its own headers, which a tunnel
 * socket accepts unsegmented. The stack segments it for devices that do not support that.
 */
void rdma_helper_skb_set_train(struct sk_buff *skb, unsigned int later,
			       unsigned int truesize, unsigned short size,
			       unsigned short segments)
{
	skb->len += later;
	skb->data_len = later;
	/* Queues limit their content by truesize. */
	skb->truesize += truesize;
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb_shinfo(skb)->gso_size = size;
	skb_shinfo(skb)->gso_segs = segments;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST |
				    SKB_GSO_UDP_TUNNEL;
}

__be16 rdma_helper_skb_protocol(const struct sk_buff *skb)
{
	return READ_ONCE(skb->protocol);
}

/* The device that received a datagram: if a VRF has taken it, its port. Under RCU. */
struct net_device *rdma_helper_skb_dev(const struct sk_buff *skb)
{
	struct net_device *dev = READ_ONCE(skb->dev), *port = NULL;
	int index;

	if (!dev || !netif_is_l3_master(dev))
		return dev;
	index = skb->protocol == htons(ETH_P_IPV6) ? inet6_sdif(skb) : inet_sdif(skb);
	if (index)
		port = dev_get_by_index_rcu(dev_net_rcu(dev), index);
	return port ?: dev;
}

void rdma_helper_skb_set_dev(struct sk_buff *skb, struct net_device *dev)
{
	WRITE_ONCE(skb->dev, dev);
}

/* The CPU that selects the queue of a device with XPS, instead of the current one. */
void rdma_helper_skb_set_sender_cpu(struct sk_buff *skb, unsigned int cpu)
{
#ifdef CONFIG_XPS
	skb->sender_cpu = cpu + 1;
#endif
}

/*
 * Calls @destructor when the skb, which has none, is freed or passed to another owner. The arguments
 * are in fields that the stack uses for zero copy and for time stamps of a socket only, and preserves.
 */
void rdma_helper_skb_set_owner(struct sk_buff *skb,
			       void (*destructor)(struct sk_buff *),
			       void *owner, u32 packets)
{
	skb->destructor = destructor;
	skb_shinfo(skb)->destructor_arg = owner;
	skb_shinfo(skb)->tskey = packets;
}

void *rdma_helper_skb_owner(const struct sk_buff *skb, u32 *packets)
{
	*packets = skb_shinfo(skb)->tskey;
	return skb_shinfo(skb)->destructor_arg;
}

/* The current CPU, which may be another one soon. */
unsigned int rdma_helper_cpu(void)
{
	return raw_smp_processor_id();
}

void rdma_helper_skb_orphan(struct sk_buff *skb)
{
	skb_orphan(skb);
}

void rdma_helper_skb_dst_drop(struct sk_buff *skb)
{
	skb_dst_drop(skb);
}

void rdma_helper_skb_dst_set_noref(struct sk_buff *skb, struct dst_entry *dst)
{
	skb_dst_set_noref(skb, dst);
}

/* Network devices and namespaces */

void rdma_helper_dev_hold(struct net_device *dev)
{
	dev_hold(dev);
}

void rdma_helper_dev_put(struct net_device *dev)
{
	dev_put(dev);
}

const char *rdma_helper_netdev_name(const struct net_device *dev)
{
	return netdev_name(dev);
}

unsigned int rdma_helper_netdev_mtu(const struct net_device *dev)
{
	return READ_ONCE(dev->mtu);
}

unsigned short rdma_helper_netdev_type(const struct net_device *dev)
{
	return READ_ONCE(dev->type);
}

unsigned char rdma_helper_netdev_addr_len(const struct net_device *dev)
{
	return READ_ONCE(dev->addr_len);
}

const unsigned char *rdma_helper_netdev_addr(const struct net_device *dev)
{
	return dev->dev_addr;
}

unsigned int rdma_helper_netdev_flags(const struct net_device *dev)
{
	return READ_ONCE(dev->flags);
}

bool rdma_helper_netif_running(const struct net_device *dev)
{
	return netif_running(dev);
}

bool rdma_helper_netdev_leaving(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) >= NETREG_UNREGISTERING;
}

bool rdma_helper_netdev_is_unregistered(const struct net_device *dev)
{
	return READ_ONCE(dev->reg_state) > NETREG_UNREGISTERING;
}

bool rdma_helper_netif_carrier_ok(const struct net_device *dev)
{
	return netif_carrier_ok(dev);
}

unsigned int rdma_helper_netdev_ll_reserved(const struct net_device *dev)
{
	return LL_RESERVED_SPACE(dev) + READ_ONCE(dev->needed_tailroom);
}

bool rdma_helper_is_vlan_dev(const struct net_device *dev)
{
	return is_vlan_dev(dev);
}

struct net_device *rdma_helper_vlan_real_dev(const struct net_device *dev)
{
	return vlan_dev_real_dev(dev);
}

u16 rdma_helper_vlan_id(const struct net_device *dev)
{
	return vlan_dev_vlan_id(dev);
}

struct net *rdma_helper_dev_net_rcu(const struct net_device *dev)
{
	return dev_net_rcu(dev);
}

void *rdma_helper_net_generic(const struct net *net, unsigned int id)
{
	return net_generic(net, id);
}

int rdma_helper_register_pernet_subsys(struct pernet_operations *ops)
{
	return register_pernet_subsys(ops);
}

void rdma_helper_unregister_pernet_subsys(struct pernet_operations *ops)
{
	unregister_pernet_subsys(ops);
}

int rdma_helper_register_netdevice_notifier(struct notifier_block *nb)
{
	return register_netdevice_notifier(nb);
}

void rdma_helper_unregister_netdevice_notifier(struct notifier_block *nb)
{
	unregister_netdevice_notifier(nb);
}

struct net_device *rdma_helper_notifier_dev(const void *info)
{
	return netdev_notifier_info_to_dev(info);
}

void rdma_helper_rtnl_lock(void)
{
	rtnl_lock();
}

void rdma_helper_rtnl_unlock(void)
{
	rtnl_unlock();
}

void rdma_helper_synchronize_net(void)
{
	synchronize_net();
}

/* Multicast groups; the IPv4 ones are under RTNL */

int rdma_helper_join4(struct net_device *dev, __be32 group)
{
	struct in_device *in_dev;

	rtnl_lock();
	in_dev = __in_dev_get_rtnl(dev);
	if (in_dev)
		ip_mc_inc_group(in_dev, group);
	rtnl_unlock();
	return in_dev ? 0 : -ENODEV;
}

void rdma_helper_leave4(struct net_device *dev, __be32 group)
{
	struct in_device *in_dev;

	rtnl_lock();
	in_dev = __in_dev_get_rtnl(dev);
	if (in_dev)
		ip_mc_dec_group(in_dev, group);
	rtnl_unlock();
}

int rdma_helper_join6(struct net_device *dev, const void *group)
{
#if IS_ENABLED(CONFIG_IPV6)
	return ipv6_dev_mc_inc(dev, group);
#else
	return -EAFNOSUPPORT;
#endif
}

void rdma_helper_leave6(struct net_device *dev, const void *group)
{
#if IS_ENABLED(CONFIG_IPV6)
	ipv6_dev_mc_dec(dev, group);
#endif
}

/* Routes */

struct dst_entry *rdma_helper_route4(struct net *net, int oif, __be32 saddr,
				     __be32 daddr, __be16 sport, __be16 dport)
{
	struct flowi4 fl = {
		.flowi4_oif = oif,
		.flowi4_proto = IPPROTO_UDP,
		.saddr = saddr,
		.daddr = daddr,
		.fl4_sport = sport,
		.fl4_dport = dport,
	};
	struct rtable *rt = ip_route_output_key(net, &fl);

	return IS_ERR(rt) ? ERR_CAST(rt) : &rt->dst;
}

struct dst_entry *rdma_helper_route6(struct net *net, int oif, const void *saddr,
				     const void *daddr, __be16 sport,
				     __be16 dport, __be32 flowlabel)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl = {
		.flowi6_oif = oif,
		.flowi6_proto = IPPROTO_UDP,
		.saddr = *(const struct in6_addr *)saddr,
		.daddr = *(const struct in6_addr *)daddr,
		.fl6_sport = sport,
		.fl6_dport = dport,
		.flowlabel = flowlabel,
	};

	return ip6_dst_lookup_flow(net, NULL, &fl, NULL);
#else
	return ERR_PTR(-EAFNOSUPPORT);
#endif
}

u32 rdma_helper_rt6_cookie(struct dst_entry *dst)
{
#if IS_ENABLED(CONFIG_IPV6)
	return rt6_get_cookie(dst_rt6_info(dst));
#else
	return 0;
#endif
}

int rdma_helper_dst_error(const struct dst_entry *dst)
{
	return dst->error;
}

bool rdma_helper_dst_check(struct dst_entry *dst, u32 cookie)
{
	return dst_check(dst, cookie);
}

void rdma_helper_dst_hold(struct dst_entry *dst)
{
	dst_hold(dst);
}

void rdma_helper_dst_release(struct dst_entry *dst)
{
	dst_release(dst);
}

u32 rdma_helper_dst_mtu(const struct dst_entry *dst)
{
	return dst_mtu(dst);
}

struct net_device *rdma_helper_dst_dev_rcu(const struct dst_entry *dst)
{
	return dst_dev_rcu(dst);
}

/* By IPsec, or by a tunnel or a program of the route itself. */
bool rdma_helper_dst_is_transformed(const struct dst_entry *dst)
{
	return dst_xfrm(dst) || dst->lwtstate;
}

int rdma_helper_ip_local_out(struct net *net, struct sk_buff *skb)
{
	return ip_local_out(net, NULL, skb);
}

int rdma_helper_ip6_local_out(struct net *net, struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_IPV6)
	return ip6_local_out(net, NULL, skb);
#else
	kfree_skb(skb);
	return -EAFNOSUPPORT;
#endif
}

/* Tunnel sockets */

struct socket *rdma_helper_udp_sock_create(struct net *net, bool ipv6,
					   __be16 port)
{
	struct udp_port_cfg cfg = {
		.family = ipv6 ? AF_INET6 : AF_INET,
		.ipv6_v6only = ipv6,
		.local_udp_port = port,
	};
	struct socket *sock = NULL;
	int err = udp_sock_create(net, &cfg, &sock);

	return err < 0 ? ERR_PTR(err) : sock;
}

struct sock *rdma_helper_socket_sk(const struct socket *sock)
{
	return sock->sk;
}

/*
 * Kernel sockets need lock classes of their own, because the locking rules of user sockets do not
 * apply. Setting the class takes a module reference, which would prevent unloading of the module
 * that releases the socket; so the reference is dropped again.
 */
void rdma_helper_reclassify_socket(struct sock *sk)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	static struct lock_class_key slock_keys[2];
	static struct lock_class_key lock_keys[2];
	bool v6 = sk->sk_family == AF_INET6;

	sock_lock_init_class_and_name(sk,
				      v6 ? "slock-AF_INET6-RDMA" : "slock-AF_INET-RDMA",
				      &slock_keys[v6],
				      v6 ? "sk_lock-AF_INET6-RDMA" : "sk_lock-AF_INET-RDMA",
				      &lock_keys[v6]);
	sk_owner_put(sk);
	sk_owner_clear(sk);
#endif
}

void rdma_helper_setup_udp_tunnel(struct net *net, struct sock *sk, void *user,
				  int (*encap_rcv)(struct sock *, struct sk_buff *),
				  struct sk_buff *(*gro_receive)(struct sock *,
								 struct list_head *,
								 struct sk_buff *))
{
	struct udp_tunnel_sock_cfg cfg = {
		.sk_user_data = user,
		.encap_type = 1,
		.encap_rcv = encap_rcv,
		.gro_receive = gro_receive,
	};

	setup_udp_tunnel_sock(net, sk, &cfg);
	udp_allow_gso(sk);
}

void *rdma_helper_sk_user_data(const struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

void rdma_helper_udp_tunnel_release(struct sock *sk)
{
	udp_tunnel_sock_release(sk);
}

/* GRO for tunnel sockets: received datagrams are chained */

static int has_program(struct net_device *upper, struct netdev_nested_priv *priv)
{
	return !!rcu_access_pointer(upper->xdp_prog);
}

/*
 * Whether a device above has a generic XDP program, to which a train would be one packet. (For a
 * device with a program of its own, GRO is off.)
 */
static bool gro_meets_program(struct net_device *dev)
{
	struct netdev_nested_priv priv = {};

	return !list_empty(&dev->adj_list.upper) &&
	       netdev_walk_all_upper_dev_rcu(dev, has_program, &priv);
}

/* Reports the GRO state of a datagram, with @behind bytes after its UDP header. */
void rdma_helper_gro_look(struct list_head *head, struct sk_buff *skb,
			  unsigned int behind, struct rdma_gro *gro)
{
	const struct napi_gro_cb *cb = NAPI_GRO_CB(skb);
	unsigned int end = skb_gro_offset(skb) + behind;
	struct sk_buff *p;

	gro->headers = NULL;
	gro->waiting = NULL;
	gro->first = NULL;
	list_for_each_entry(p, head, list) {
		if (NAPI_GRO_CB(p)->same_flow) {
			gro->waiting = p;
			break;
		}
	}
	/* GRO has found an exception, or the skb is a train already. */
	if (cb->flush || skb->encapsulation || skb->ip_summed == CHECKSUM_PARTIAL)
		return;
	if (gro_meets_program(skb->dev))
		return;
	/* Pull the headers out of fragments: a local program may write to those. */
	if (!pskb_may_pull(skb, end))
		return;
	gro->headers = skb->data + cb->network_offset;
	gro->headers_len = end - cb->network_offset;
	gro->len = skb->len - cb->network_offset;

	if (!gro->waiting || !NAPI_GRO_CB(gro->waiting)->is_flist)
		return;
	cb = NAPI_GRO_CB(gro->waiting);
	gro->first = gro->waiting->data + cb->network_offset;
	gro->first_len = skb_gro_offset(gro->waiting) - cb->network_offset;
	gro->waiting_len = gro->waiting->len - cb->network_offset;
	gro->count = cb->count;
	gro->same_ident = skb_shinfo(gro->waiting)->gso_type & SKB_GSO_TCP_FIXEDID;
}

/* Excludes the datagram from chaining. */
void rdma_helper_gro_alone(struct sk_buff *skb)
{
	NAPI_GRO_CB(skb)->flush = 1;
}

static bool gro_is_for_us(const struct sk_buff *skb, const void *network)
{
	struct net *net = dev_net_rcu(skb->dev);
	const struct iphdr *ip = network;

	if (skb->pkt_type != PACKET_HOST)
		return false;
	if (ip->version == 4)
		return __ip_dev_find(net, ip->daddr, false);
#if IS_ENABLED(CONFIG_IPV6)
	return ipv6_chk_addr(net, &((const struct ipv6hdr *)network)->daddr, NULL, 0);
#else
	return false;
#endif
}

/*
 * Lets the datagram wait for more of its flow, as the first one of a list of skbs, of which GRO
 * makes a train. Returns false if it is not addressed to this host. It must then be passed on
 * unchanged, because a router decrements the TTL only in the first datagram of a train.
 */
bool rdma_helper_gro_wait(struct sk_buff *skb, const u8 *headers)
{
	struct napi_gro_cb *cb = NAPI_GRO_CB(skb);

	if (skb_cloned(skb) || !gro_is_for_us(skb, headers))
		return false;
	/* The payload is not a packet, so the datagram is not encapsulated. */
	cb->encap_mark = 0;
	cb->is_flist = 1;
	return true;
}

/*
 * Appends a datagram to a waiting one. Returns false if the train would be too long, or without
 * memory.
 */
bool rdma_helper_gro_join(struct sk_buff *waiting, struct sk_buff *skb,
			  bool same_ident)
{
	struct napi_gro_cb *cb = NAPI_GRO_CB(waiting);
	struct skb_shared_info *shared = skb_shinfo(waiting);

	if (waiting->len + skb->len >= GRO_LEGACY_MAX_SIZE ||
	    !pskb_may_pull(skb, skb_gro_offset(skb)))
		return false;
	/*
	 * Release the sending socket, because the memory charged to it would change, and references
	 * of limited lifetime, because the datagram may be kept longer. Code that splits a train
	 * uses those of the first datagram.
	 */
	skb_orphan(skb);
	if (unlikely(skb->slow_gro)) {
		skb_dst_drop(skb);
		skb_ext_reset(skb);
		nf_reset_ct(skb);
	}
	skb->dev = NULL;
	skb_set_network_header(skb, NAPI_GRO_CB(skb)->network_offset);
	__skb_pull(skb, skb_gro_offset(skb));
	skb->next = NULL;
	if (cb->count == 1) {
		skb_orphan(waiting);
		waiting->ip_summed = CHECKSUM_UNNECESSARY;
		waiting->csum_level = 0;
		/* GRO adds the other flags of a train. */
		shared->gso_type = SKB_GSO_UDP_TUNNEL |
				   (same_ident ? SKB_GSO_TCP_FIXEDID : 0);
		shared->frag_list = skb;
	} else {
		cb->last->next = skb;
	}
	cb->last = skb;
	cb->count++;
	waiting->data_len += skb->len;
	waiting->len += skb->len;
	waiting->truesize += skb->truesize;
	shared->flags |= skb_shinfo(skb)->flags & SKBFL_SHARED_FRAG;
	NAPI_GRO_CB(skb)->same_flow = 1;
	return true;
}
