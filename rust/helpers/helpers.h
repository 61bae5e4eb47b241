/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Functions for Rust that wrap static inlines and macros of the kernel. Without logic: one call
 * each, with few exceptions.
 */
#ifndef RDMA_RUST_HELPERS_H
#define RDMA_RUST_HELPERS_H

#include <linux/dma-direction.h>
#include <linux/mm_types.h>
#include <linux/refcount.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>
#include <net/net_namespace.h>

struct hmm_range;
struct ib_device;
struct mem_cgroup;
struct vm_area_struct;
struct workqueue_struct;
struct xarray;

/*
 * For bitcode that is inlined into Rust. always_inline, because compilers otherwise refuse to
 * inline between the languages (clang and rustc name different CPU features).
 */
#ifdef RDMA_HELPERS_INLINE
#pragma clang attribute push(__attribute__((always_inline)), apply_to = function)
#endif

/* base.c */
void rdma_helper_cond_resched(void);
void rdma_helper_synchronize_rcu_tasks(void);
unsigned long rdma_helper_array_index_nospec(unsigned long index, unsigned long size);
void rdma_helper_local_bh_disable(void);
void rdma_helper_local_bh_enable(void);
unsigned long rdma_helper_spin_lock_irqsave(spinlock_t *lock);
bool rdma_helper_spin_trylock_irqsave(spinlock_t *lock, unsigned long *flags);
void rdma_helper_spin_unlock_irqrestore(spinlock_t *lock, unsigned long flags);
void rdma_helper_spin_lock_bh(spinlock_t *lock);
bool rdma_helper_spin_trylock_bh(spinlock_t *lock);
void rdma_helper_spin_unlock_bh(spinlock_t *lock);
struct workqueue_struct *rdma_helper_alloc_workqueue(const char *name,
						     unsigned int flags,
						     int max_active);
struct mem_cgroup *rdma_helper_charge_begin(struct mm_struct *mm,
					    struct mem_cgroup **before);
void rdma_helper_charge_end(struct mem_cgroup *group, struct mem_cgroup *before);

/*
 * For allocations that a user causes: charged to the user's memory cgroup. If the cgroup or the
 * machine is out of memory, they fail, without a log message and without invoking the OOM killer.
 */
#define GFP_USERS (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

void *rdma_helper_alloc_accounted(unsigned long size);
void *rdma_helper_zalloc_accounted(unsigned long size);
void *rdma_helper_alloc_mappable(unsigned long size);
void rdma_helper_vfree_mapped(const void *addr);
int rdma_helper_remap_vmalloc_range(struct vm_area_struct *vma, void *addr,
				    unsigned long pgoff);
bool rdma_helper_vmalloc_private(const void *addr, unsigned long size);
struct cdev *rdma_helper_inode_cdev(struct inode *inode);
u32 rdma_helper_crc32_le(u32 crc, const void *p, size_t len);
bool rdma_helper_refcount_inc_not_zero(refcount_t *count);
void rdma_helper_list_add_tail(struct list_head *entry, struct list_head *head);
void rdma_helper_list_del_init(struct list_head *entry);
void *rdma_helper_xa_load(struct xarray *xa, unsigned long index);

/* sysctl.c */
struct ctl_table_header;

struct ctl_table_header *rdma_helper_sysctl_register(const char *path, const char *name,
						     int *number);
void rdma_helper_sysctl_unregister(struct ctl_table_header *header);

/* iwcm.c */
struct sk_buff;

struct sk_buff *rdma_helper_skb_copy_of(const void *data, unsigned int len);

/* buffers.c */
struct sk_buff;

struct sk_buff *rdma_helper_skb_new(unsigned int head, unsigned int size,
				    gfp_t flags);
void rdma_helper_consume_skb(struct sk_buff *skb);
void rdma_helper_skb_empty_stock(void);

/* namespace.c */
struct net;
struct net_device;
struct net *rdma_helper_get_net(struct net *net);
struct net *rdma_helper_maybe_get_net(struct net *net);
void rdma_helper_put_net(struct net *net);
struct net *rdma_helper_init_net(void);
struct net *rdma_helper_current_net(void);
int rdma_helper_netdev_ifindex(const struct net_device *dev);

/* net.c */
struct dst_entry;
struct list_head;
struct net_device;
struct notifier_block;
struct pernet_operations;
struct sock;
struct socket;

void *rdma_helper_skb_tail(const struct sk_buff *skb, unsigned int len);
void *rdma_helper_skb_put(struct sk_buff *skb, unsigned int len);
void rdma_helper_skb_pull(struct sk_buff *skb, unsigned int len);
void rdma_helper_skb_push(struct sk_buff *skb, unsigned int len);
bool rdma_helper_skb_is_before_data(const struct sk_buff *skb, unsigned int len);
int rdma_helper_skb_before_data(const struct sk_buff *skb);
void rdma_helper_skb_set_headers(struct sk_buff *skb, __be16 protocol,
				 int network, int transport);
struct sk_buff *rdma_helper_skb_list_take(struct sk_buff **list, gfp_t flags);
struct sk_buff *rdma_helper_skb_clone(struct sk_buff *skb, gfp_t flags);
void rdma_helper_kfree_skb(struct sk_buff *skb);
bool rdma_helper_skb_cloned(const struct sk_buff *skb);
int rdma_helper_skb_linearize(struct sk_buff *skb);
int rdma_helper_skb_unclone(struct sk_buff *skb, gfp_t flags);
void rdma_helper_skb_set_next(struct sk_buff *skb, struct sk_buff *next);
void rdma_helper_kfree_skb_list(struct sk_buff *skb);
bool rdma_helper_skb_is_train(const struct sk_buff *skb);
void rdma_helper_skb_set_frag_list(struct sk_buff *skb, struct sk_buff *list);
struct sk_buff *rdma_helper_skb_take_frag_list(struct sk_buff *skb);
void rdma_helper_skb_set_train(struct sk_buff *skb, unsigned int later,
			       unsigned int truesize, unsigned short size,
			       unsigned short segments);
__be16 rdma_helper_skb_protocol(const struct sk_buff *skb);
struct net_device *rdma_helper_skb_dev(const struct sk_buff *skb);
void rdma_helper_skb_set_dev(struct sk_buff *skb, struct net_device *dev);
void rdma_helper_skb_set_sender_cpu(struct sk_buff *skb, unsigned int cpu);
void rdma_helper_skb_set_owner(struct sk_buff *skb,
			       void (*destructor)(struct sk_buff *),
			       void *owner, u32 packets);
void *rdma_helper_skb_owner(const struct sk_buff *skb, u32 *packets);
unsigned int rdma_helper_cpu(void);
void rdma_helper_skb_orphan(struct sk_buff *skb);
void rdma_helper_skb_dst_drop(struct sk_buff *skb);
void rdma_helper_skb_dst_set_noref(struct sk_buff *skb, struct dst_entry *dst);
void rdma_helper_dev_hold(struct net_device *dev);
void rdma_helper_dev_put(struct net_device *dev);
const char *rdma_helper_netdev_name(const struct net_device *dev);
unsigned int rdma_helper_netdev_mtu(const struct net_device *dev);
unsigned short rdma_helper_netdev_type(const struct net_device *dev);
unsigned char rdma_helper_netdev_addr_len(const struct net_device *dev);
const unsigned char *rdma_helper_netdev_addr(const struct net_device *dev);
unsigned int rdma_helper_netdev_flags(const struct net_device *dev);
bool rdma_helper_netif_running(const struct net_device *dev);
bool rdma_helper_netdev_leaving(const struct net_device *dev);
bool rdma_helper_netdev_is_unregistered(const struct net_device *dev);
bool rdma_helper_netif_carrier_ok(const struct net_device *dev);
unsigned int rdma_helper_netdev_ll_reserved(const struct net_device *dev);
bool rdma_helper_is_vlan_dev(const struct net_device *dev);
struct net_device *rdma_helper_vlan_real_dev(const struct net_device *dev);
u16 rdma_helper_vlan_id(const struct net_device *dev);
struct net *rdma_helper_dev_net_rcu(const struct net_device *dev);
void *rdma_helper_net_generic(const struct net *net, unsigned int id);
int rdma_helper_register_pernet_subsys(struct pernet_operations *ops);
void rdma_helper_unregister_pernet_subsys(struct pernet_operations *ops);
int rdma_helper_register_netdevice_notifier(struct notifier_block *nb);
void rdma_helper_unregister_netdevice_notifier(struct notifier_block *nb);
struct net_device *rdma_helper_notifier_dev(const void *info);
void rdma_helper_synchronize_net(void);
int rdma_helper_join4(struct net_device *dev, __be32 group);
void rdma_helper_leave4(struct net_device *dev, __be32 group);
int rdma_helper_join6(struct net_device *dev, const void *group);
void rdma_helper_leave6(struct net_device *dev, const void *group);
struct dst_entry *rdma_helper_route4(struct net *net, int oif, __be32 saddr,
		__be32 daddr, __be16 sport, __be16 dport);
struct dst_entry *rdma_helper_route6(struct net *net, int oif, const void *saddr,
		const void *daddr, __be16 sport,
		__be16 dport, __be32 flowlabel);
u32 rdma_helper_rt6_cookie(struct dst_entry *dst);
int rdma_helper_dst_error(const struct dst_entry *dst);
bool rdma_helper_dst_check(struct dst_entry *dst, u32 cookie);
void rdma_helper_dst_hold(struct dst_entry *dst);
void rdma_helper_dst_release(struct dst_entry *dst);
u32 rdma_helper_dst_mtu(const struct dst_entry *dst);
struct net_device *rdma_helper_dst_dev_rcu(const struct dst_entry *dst);
bool rdma_helper_dst_is_transformed(const struct dst_entry *dst);
int rdma_helper_ip_local_out(struct net *net, struct sk_buff *skb);
int rdma_helper_ip6_local_out(struct net *net, struct sk_buff *skb);
struct socket *rdma_helper_udp_sock_create(struct net *net, bool ipv6,
		__be16 port);
struct sock *rdma_helper_socket_sk(const struct socket *sock);
void rdma_helper_reclassify_socket(struct sock *sk);
void rdma_helper_setup_udp_tunnel(struct net *net, struct sock *sk, void *user,
		int (*encap_rcv)(struct sock *, struct sk_buff *),
		struct sk_buff *(*gro_receive)(struct sock *, struct list_head *,
					       struct sk_buff *));
/* GRO state of a datagram, and of the waiting ones of its flow. */
struct rdma_gro {
	const u8 *headers;	/* from the IP header on; NULL: must not be chained */
	unsigned int headers_len;
	unsigned int len;	/* from the IP header on */
	unsigned int first_len;
	unsigned int waiting_len;
	u16 count;
	bool same_ident;
	struct sk_buff *waiting;	/* NULL if there is none */
	const u8 *first;	/* headers of the first; NULL: no more can be added */
};
void rdma_helper_gro_look(struct list_head *head, struct sk_buff *skb,
			  unsigned int behind, struct rdma_gro *gro);
void rdma_helper_gro_alone(struct sk_buff *skb);
bool rdma_helper_gro_wait(struct sk_buff *skb, const u8 *headers);
bool rdma_helper_gro_join(struct sk_buff *waiting, struct sk_buff *skb,
			  bool same_ident);
void *rdma_helper_sk_user_data(const struct sock *sk);
void rdma_helper_udp_tunnel_release(struct sock *sk);

/* mem.c */
struct page;

void *rdma_helper_page_address(const struct page *page);
bool rdma_helper_virt_addr_valid(const void *addr);
bool rdma_helper_is_pmem(const struct page *page, size_t count);
void rdma_helper_wb_cache_pmem(void *addr, size_t size);

/* odp.c */
struct ib_umem_odp;
struct mmu_interval_notifier;
struct mmu_interval_notifier_ops;
struct mmu_notifier_range;

struct ib_umem_odp *rdma_helper_odp_get(struct ib_device *dev, unsigned long addr,
					size_t size, int access,
					const struct mmu_interval_notifier_ops *ops);
struct ib_umem_odp *rdma_helper_odp_alloc_implicit(struct ib_device *dev, int access);
struct ib_umem_odp *rdma_helper_odp_alloc_child(struct ib_umem_odp *root,
						unsigned long addr, size_t size,
						const struct mmu_interval_notifier_ops *ops);
unsigned int rdma_helper_smallest_node_part(unsigned int of);
unsigned int rdma_helper_answerable_user(void);
bool rdma_helper_fatal_signal_pending(void);
unsigned long rdma_helper_mm_task_size(const struct mm_struct *mm);
void rdma_helper_odp_release(struct ib_umem_odp *odp);
int rdma_helper_odp_map_and_lock(struct ib_umem_odp *odp, u64 addr, u64 size,
				 bool write, bool fault);
void rdma_helper_odp_unmap(struct ib_umem_odp *odp, u64 addr, u64 end);
void rdma_helper_odp_lock(struct ib_umem_odp *odp);
void rdma_helper_odp_unlock(struct ib_umem_odp *odp);
u64 rdma_helper_odp_start(struct ib_umem_odp *odp);
u64 rdma_helper_odp_end(struct ib_umem_odp *odp);
struct ib_umem_odp *rdma_helper_odp_of(struct mmu_interval_notifier *notifier);
void rdma_helper_interval_set_seq(struct mmu_interval_notifier *notifier,
				  unsigned long seq);
bool rdma_helper_range_blockable(const struct mmu_notifier_range *range);
u64 rdma_helper_range_start(const struct mmu_notifier_range *range);
u64 rdma_helper_range_end(const struct mmu_notifier_range *range);
bool rdma_helper_hmm_pfn_valid(unsigned long pfn);
bool rdma_helper_hmm_pfn_writable(unsigned long pfn);
void *rdma_helper_hmm_pfn_address(unsigned long pfn);
void rdma_helper_set_page_dirty(const void *addr);

/* dmabuf.c */
struct dma_buf;
struct iosys_map;

struct dma_buf *rdma_helper_dma_buf_get(int fd);
void rdma_helper_dma_buf_put(struct dma_buf *buf);
bool rdma_helper_dma_buf_is_dynamic(struct dma_buf *buf);
size_t rdma_helper_dma_buf_size(const struct dma_buf *buf);
int rdma_helper_dma_buf_begin(struct dma_buf *buf);
int rdma_helper_dma_buf_end(struct dma_buf *buf);
int rdma_helper_dma_buf_vmap(struct dma_buf *buf, struct iosys_map *map);
void rdma_helper_dma_buf_vunmap(struct dma_buf *buf, struct iosys_map *map);
void *rdma_helper_iosys_map_memory(const struct iosys_map *map);

/* verbs.c */
struct ib_umem;
struct scatterlist;

bool rdma_helper_ib_device_try_get(struct ib_device *dev);
struct ib_umem *rdma_helper_ib_umem_get_va(struct ib_device *dev,
					   unsigned long addr, size_t size,
					   int access);
struct page *rdma_helper_sg_page(struct scatterlist *sg);
struct page *rdma_helper_nth_page(struct page *page, unsigned long n);

/* netlink.c */
struct net_device *rdma_helper_dev_get_by_name(struct net *net, const char *name);
struct net *rdma_helper_sock_net(const struct sock *sk);
void rdma_helper_sock_set_sndtimeo(struct sock *sk, long jiffies);
struct sk_buff *rdma_helper_nlmsg_new_default(gfp_t flags);
int rdma_helper_nlmsg_multicast(struct sock *sk, struct sk_buff *skb,
				u32 portid, unsigned int group, gfp_t flags);

/* stats.c */
unsigned int rdma_helper_jiffies_to_msecs(unsigned long time);

/* inspect.c */
enum rdma_dev_kind {
	/* Everything else. */
	RDMA_DEV_OTHER,
	RDMA_DEV_BRIDGE,
	/* A bond or a VLAN. */
	RDMA_DEV_STACKED,
	RDMA_DEV_MACVLAN,
};
bool rdma_helper_net_inspects(struct net *net, bool v6, bool sent);
bool rdma_helper_net_inspects_bridged(struct net *net);
bool rdma_helper_dev_inspects_sent(struct net_device *dev);
bool rdma_helper_dev_inspects_received(struct net_device *dev);
bool rdma_helper_dev_passes_trains(struct net_device *dev);
struct net_device *rdma_helper_dev_peer(struct net_device *dev);
unsigned int rdma_helper_dev_kind(struct net_device *dev);
bool rdma_helper_dev_is_taken(struct net_device *dev);
bool rdma_helper_dev_is_vrf_port(struct net_device *dev);
bool rdma_helper_dev_routes(struct net_device *dev, bool v6);
bool rdma_helper_net_has_ip4(struct net *net, __be32 addr);
bool rdma_helper_net_has_ip6(struct net *net, const void *addr);
struct net_device *rdma_helper_dev_next_adjacent(struct net_device *dev, bool above,
						 struct list_head **at);

/* gid.c */
struct netdev_nested_priv;

unsigned short rdma_helper_netdev_dev_id(const struct net_device *dev);
bool rdma_helper_netdev_has_lower(const struct net_device *dev);
bool rdma_helper_netif_is_bond_slave(const struct net_device *dev);
bool rdma_helper_netif_is_bond_master(const struct net_device *dev);
struct net_device *rdma_helper_bond_active_slave_rcu(struct net_device *dev);
int rdma_helper_walk_uppers_rcu(struct net_device *dev,
				int (*fn)(struct net_device *upper,
					  struct netdev_nested_priv *priv),
				void *data);
int rdma_helper_walk_lowers_rcu(struct net_device *dev,
				int (*fn)(struct net_device *lower,
					  struct netdev_nested_priv *priv),
				void *data);
void *rdma_helper_nested_data(const struct netdev_nested_priv *priv);
int rdma_helper_walk_ipv4(struct net_device *dev,
			  int (*fn)(void *data, const void *addr), void *data);
int rdma_helper_walk_ipv6(struct net_device *dev,
			  int (*fn)(void *data, const void *addr), void *data);
bool rdma_helper_has_ipv4(struct net_device *dev, const void *addr);
bool rdma_helper_has_ipv6(struct net_device *dev, const void *addr);
int rdma_helper_register_inetaddr_notifier(struct notifier_block *nb);
void rdma_helper_unregister_inetaddr_notifier(struct notifier_block *nb);
int rdma_helper_register_inet6addr_notifier(struct notifier_block *nb);
void rdma_helper_unregister_inet6addr_notifier(struct notifier_block *nb);
struct net_device *rdma_helper_ifa_dev(const void *ifa);
struct net_device *rdma_helper_ifa6_dev(const void *ifa);
const void *rdma_helper_ifa_address(const void *ifa);
const void *rdma_helper_ifa6_address(const void *ifa);
bool rdma_helper_protocol_roce(const struct ib_device *dev, u32 port);
bool rdma_helper_protocol_roce_v1(const struct ib_device *dev, u32 port);
bool rdma_helper_protocol_roce_v2(const struct ib_device *dev, u32 port);
bool rdma_helper_protocol_iwarp(const struct ib_device *dev, u32 port);
bool rdma_helper_cap_roce_gid_table(const struct ib_device *dev, u32 port);

/* umem.c */
struct dma_resv;
struct ib_udata;
struct kref;
struct mm_struct;
struct pid;
struct rdma_user_mmap_entry;
struct sg_table;
struct srcu_struct;
struct uverbs_attr;
struct uverbs_attr_bundle;

bool rdma_helper_ib_uses_virt_dma(struct ib_device *dev);
bool rdma_helper_ib_access_writable(int access);
int rdma_helper_ib_check_mr_access(struct ib_device *dev, unsigned int flags);
int rdma_helper_ib_dma_map_sgtable(struct ib_device *dev, struct sg_table *sgt,
				   unsigned long attrs);
void rdma_helper_ib_dma_unmap_sgtable(struct ib_device *dev, struct sg_table *sgt,
				      unsigned long attrs);
unsigned int rdma_helper_ib_dma_max_seg_size(struct ib_device *dev);
void rdma_helper_sg_set_dma_address(struct scatterlist *sg, dma_addr_t addr);
void rdma_helper_sg_set_dma_len(struct scatterlist *sg, unsigned int len);
unsigned long rdma_helper_rlimit_memlock(void);
s64 rdma_helper_pinned_vm_add(struct mm_struct *mm, s64 pages);
void rdma_helper_pinned_vm_sub(struct mm_struct *mm, s64 pages);
void rdma_helper_dma_resv_assert_held(struct dma_resv *resv);
unsigned int rdma_helper_hpage_shift(void);
void rdma_helper_odp_init_mutex(struct ib_umem_odp *odp);
void rdma_helper_odp_assert_held(struct ib_umem_odp *odp);
int rdma_helper_hmm_range_fault(struct hmm_range *range);
bool rdma_helper_interval_read_retry(struct mmu_interval_notifier *notifier,
				     unsigned long seq);
void rdma_helper_hmm_pfn_set_dirty(unsigned long pfn);
void rdma_helper_fs_reclaim_acquire(void);
void rdma_helper_fs_reclaim_release(void);
bool rdma_helper_uverbs_attr_is_valid(const struct uverbs_attr_bundle *bundle, u16 idx);
u32 rdma_helper_uverbs_attr_bit(u16 idx);
int rdma_helper_uverbs_copy_from(void *to, const struct uverbs_attr_bundle *bundle,
				 size_t idx, size_t size);
struct uverbs_attr_bundle *rdma_helper_udata_to_bundle(struct ib_udata *udata);
void *rdma_helper_srcu_dereference(void **p, struct srcu_struct *srcu);
void rdma_helper_srcu_assert_held(struct srcu_struct *srcu);
void *rdma_helper_kvmalloc(size_t size, gfp_t flags);
bool rdma_helper_want_init_on_alloc(gfp_t flags);
int rdma_helper_io_remap_pfn_range(struct vm_area_struct *vma, unsigned long addr,
				   unsigned long pfn, unsigned long size, pgprot_t prot);
void rdma_helper_mmap_entry_init_mutex(struct rdma_user_mmap_entry *entry);
struct pid *rdma_helper_get_pid(struct pid *pid);
void rdma_helper_list_del(struct list_head *entry);
bool rdma_helper_kref_get_unless_zero(struct kref *kref);

/* core_verbs.c */
struct ib_cq;
struct ib_mr;
struct ib_pd;
struct ib_qp;
struct list_head;
struct rw_semaphore;

void *rdma_helper_zalloc_obj(struct ib_device *dev, size_t size, gfp_t gfp,
			     bool numa);
void rdma_helper_qp_init(struct ib_qp *qp);
void rdma_helper_qp_detach_comp_cntrs(struct ib_qp *qp);
void rdma_helper_xrcd_init_rwsem(struct rw_semaphore *sem);
void rdma_helper_qp_list_add(struct list_head *entry, struct list_head *head);
void rdma_helper_qp_list_del(struct list_head *entry);
void rdma_helper_rtnl_lock(void);
void rdma_helper_rtnl_unlock(void);
bool rdma_helper_netdev_is_registered(const struct net_device *dev);
int rdma_helper_link_settings(struct net_device *dev, u32 *mbps, u32 *lanes);
struct net_device *rdma_helper_alloc_netdev(size_t sizeof_priv, const char *name,
					    unsigned char name_assign_type,
					    void (*setup)(struct net_device *),
					    unsigned int txqs, unsigned int rxqs);
void rdma_helper_trace_mr_alloc(struct ib_pd *pd, u32 type, u32 max_sg,
				struct ib_mr *mr);
void rdma_helper_trace_mr_integ_alloc(struct ib_pd *pd, u32 max_data_sg,
				      u32 max_meta_sg, struct ib_mr *mr);
void rdma_helper_trace_mr_dereg(struct ib_mr *mr);
void rdma_helper_trace_cq_drain_complete(struct ib_cq *cq);
void rdma_helper_trace_cq_process(struct ib_cq *cq);
void rdma_helper_trace_cq_poll(struct ib_cq *cq, int wanted, int polled);

/* core_addr.c */

struct dst_entry *rdma_helper_reach4(struct net *net, int oif, __be32 *saddr,
				     __be32 daddr);
struct dst_entry *rdma_helper_reach6(struct net *net, int oif, void *saddr,
				     const void *daddr);
int rdma_helper_hop_limit4(const struct dst_entry *dst);
int rdma_helper_hop_limit6(struct dst_entry *dst);
bool rdma_helper_is_local4(const struct dst_entry *dst);
bool rdma_helper_is_local6(const struct dst_entry *dst);
bool rdma_helper_has_gateway4(const struct dst_entry *dst);
bool rdma_helper_has_gateway6(const struct dst_entry *dst);
void *rdma_helper_neigh_lookup(const struct dst_entry *dst,
					   const void *daddr);
bool rdma_helper_neigh_is_valid(const void *neigh);
void rdma_helper_neigh_probe(void *neigh);
void rdma_helper_neigh_addr(char *addr, void *neigh);
void rdma_helper_neigh_id(const void *neigh, unsigned long *net, u32 *ifindex, u32 *family,
			  u8 (*address)[16]);
void rdma_helper_neigh_release(void *neigh);
int rdma_helper_register_netevent(struct notifier_block *nb);
void rdma_helper_unregister_netevent(struct notifier_block *nb);
bool rdma_helper_wait_for_change(atomic_t *count, int seen, long timeout);
void rdma_helper_change(atomic_t *count);
struct net_device *rdma_helper_dev_of_ip4(struct net *net, __be32 addr);
bool rdma_helper_dev_has_ip6(struct net *net, const void *addr,
			     struct net_device *dev);
struct net_device *rdma_helper_first_netdev_rcu(struct net *net);
struct net_device *rdma_helper_next_netdev_rcu(struct net_device *dev);
struct net_device *rdma_helper_dev_get_by_index(struct net *net, int ifindex);
const unsigned char *rdma_helper_netdev_broadcast(const struct net_device *dev);
void rdma_helper_skb_reset_mac_header(struct sk_buff *skb);
struct net_device *rdma_helper_xmit_slave(struct net_device *master,
					  struct sk_buff *skb, bool all);
/* device.c */
struct device;
struct hlist_head;
struct hlist_node;
struct ib_port_data;
struct kobj_ns_type_operations;
struct list_head;
struct ns_common;

extern bool rdma_netns_shared;

void rdma_helper_ib_device_init(struct ib_device *dev);
void rdma_helper_ib_device_fini(struct ib_device *dev);
void rdma_helper_ib_port_data_init(struct ib_port_data *port);
void rdma_helper_kfree_rcu(void *head, void *ptr);
int rdma_helper_refcount_read(const refcount_t *count);
bool rdma_helper_hlist_unhashed(const struct hlist_node *node);
void rdma_helper_hlist_add_rcu(struct hlist_node *node, struct hlist_head *head);
void rdma_helper_hlist_del_rcu(struct hlist_node *node);
struct hlist_node *rdma_helper_hlist_first_rcu(struct hlist_head *head);
struct hlist_node *rdma_helper_hlist_next_rcu(struct hlist_node *node);
struct net *rdma_helper_read_pnet(const possible_net_t *pnet);
void rdma_helper_write_pnet(possible_net_t *pnet, struct net *net);
const struct ns_common *rdma_helper_net_ns_common(struct net *net);
const struct kobj_ns_type_operations *rdma_helper_net_ns_type(void);
bool rdma_helper_net_capable(const struct net *net, int cap);
bool rdma_helper_skb_net_capable(const struct sk_buff *skb, const struct net *net,
				 int cap);
struct net *rdma_helper_net_by_fd(int fd);
int rdma_helper_register_pernet_device(struct pernet_operations *ops);
void rdma_helper_unregister_pernet_device(struct pernet_operations *ops);
void rdma_helper_dev_set_uevent_suppress(struct device *dev, bool on);
void rdma_helper_rdmacg_describe(struct ib_device *dev);
bool rdma_helper_dma_may_bounce(void);
void rdma_helper_netdev_hold(struct net_device *dev, netdevice_tracker *tracker);
void rdma_helper_netdev_put(struct net_device *dev, netdevice_tracker *tracker);
bool rdma_helper_netdev_has_ipv4(const struct net_device *dev);
bool rdma_helper_netif_is_lag(const struct net_device *dev);
void rdma_helper_sg_map_virtual(struct scatterlist *sg);
struct scatterlist *rdma_helper_sg_next(struct scatterlist *sg);

/* core_cq.c */
struct work_struct;

void rdma_helper_init_work(struct work_struct *work,
			   void (*fn)(struct work_struct *work));
unsigned int rdma_helper_num_online_cpus(void);
void rdma_helper_trace_cq_schedule(struct ib_cq *cq);
void rdma_helper_trace_cq_reschedule(struct ib_cq *cq);
void rdma_helper_trace_cq_modify(const struct ib_cq *cq, u16 comps, u16 usec);
void rdma_helper_trace_cq_alloc(const struct ib_cq *cq, int nr_cqe, int comp_vector,
				unsigned int poll_ctx);
void rdma_helper_trace_cq_alloc_error(int nr_cqe, int comp_vector,
				      unsigned int poll_ctx, int rc);
void rdma_helper_trace_cq_free(const struct ib_cq *cq);
/* post.c */
struct ib_recv_wr;
struct ib_send_wr;

u64 rdma_helper_ib_dma_map_single(struct ib_device *dev, void *addr, size_t size,
				  enum dma_data_direction direction);
int rdma_helper_ib_dma_mapping_error(struct ib_device *dev, u64 addr);
void rdma_helper_ib_dma_unmap_single(struct ib_device *dev, u64 addr, size_t size,
				     enum dma_data_direction direction);
int rdma_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr);
int rdma_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr);
int rdma_helper_map_mr_piece(struct ib_mr *mr, u64 addr, unsigned int len);
void rdma_helper_ib_dma_sync_for_cpu(struct ib_device *dev, u64 addr, size_t size);
void rdma_helper_ib_dma_sync_for_device(struct ib_device *dev, u64 addr, size_t size);
/* mad.c */
int rdma_helper_ib_req_notify_cq(struct ib_cq *cq);
unsigned long rdma_helper_jiffies(void);
unsigned long rdma_helper_msecs_to_jiffies(unsigned int msecs);

extern int rdma_mad_send_queue;
extern int rdma_mad_recv_queue;

/* core_rw.c */
struct bio_vec;
struct dma_iova_state;

extern bool rdma_rw_force_mr;

int rdma_helper_rw_map_sgtable(struct ib_device *dev, struct sg_table *sgt,
			       enum dma_data_direction dir);
void rdma_helper_rw_unmap_sgtable(struct ib_device *dev, struct sg_table *sgt,
				  enum dma_data_direction dir);
u64 rdma_helper_rw_map_bvec(struct ib_device *dev, struct bio_vec *bvec,
			    enum dma_data_direction dir);
bool rdma_helper_rw_mapping_error(struct ib_device *dev, u64 addr);
void rdma_helper_rw_unmap_bvec(struct ib_device *dev, u64 addr, size_t size,
			       enum dma_data_direction dir);
void rdma_helper_rw_sg_set_page(struct scatterlist *sg, struct page *page,
				unsigned int len, unsigned int offset);
bool rdma_helper_rw_iova_try_alloc(struct ib_device *dev, struct dma_iova_state *state,
				   struct bio_vec *first, size_t size);
int rdma_helper_rw_iova_link(struct ib_device *dev, struct dma_iova_state *state,
			     struct bio_vec *bvec, size_t offset,
			     enum dma_data_direction dir);
int rdma_helper_rw_iova_sync(struct ib_device *dev, struct dma_iova_state *state,
			     size_t size);
void rdma_helper_rw_iova_destroy(struct ib_device *dev, struct dma_iova_state *state,
				 size_t mapped, enum dma_data_direction dir);

/* Part of an address vector with a GRH, in CPU byte order. */
struct rdma_helper_grh {
	u32 flow_label;
	u8 gid_index;
	u8 hop_limit;
	u8 traffic_class;
	u8 dgid[16];
};

struct ib_ah;
struct ib_client_nl_info;
struct ib_mad_agent;
struct ib_mad_recv_wc;
bool rdma_helper_cap_ib_mad(struct ib_device *dev, u32 port);
bool rdma_helper_cap_ib_smi(struct ib_device *dev, u32 port);
u32 rdma_helper_nl_info_port(const struct ib_client_nl_info *info);
int rdma_helper_nl_info_driver(struct ib_client_nl_info *info, u32 driver);
void rdma_helper_nl_info_set(struct ib_client_nl_info *info, u64 abi, struct device *cdev);
struct ib_ah *rdma_helper_mad_ah(struct ib_mad_agent *agent, u16 dlid, u8 sl, u8 path_bits,
				 const struct rdma_helper_grh *grh);
void rdma_helper_mad_ah_destroy(struct ib_ah *ah);
void rdma_helper_umad_trace(u32 which, u32 index, u32 port, void *header, void *mad);
int rdma_helper_mad_recv_grh(struct ib_mad_agent *agent, struct ib_mad_recv_wc *wc,
			     struct rdma_helper_grh *grh);

/* core_uverbs.c */
struct ib_uverbs_dmabuf_file;

void rdma_helper_dmabuf_revoke(struct ib_uverbs_dmabuf_file *file);

/* cm.c, and the tracepoints in cm/trace.c */
struct attribute_group;
struct ib_cm_id;
bool rdma_helper_cap_ib_cm(struct ib_device *dev, u32 port);
bool rdma_helper_cap_opa_ah(struct ib_device *dev, u32 port);
int rdma_helper_port_groups_add(struct ib_device *dev, u32 port,
				const struct attribute_group **groups);
void rdma_helper_port_groups_remove(struct ib_device *dev, u32 port,
				    const struct attribute_group **groups);
void rdma_helper_cm_trace(u32 which, const struct ib_cm_id *id, u32 a, u32 b, u32 c);

/* uverbs_common.c */
struct module;
struct srcu_struct;

int rdma_helper_srcu_read_lock(struct srcu_struct *srcu);
void rdma_helper_srcu_read_unlock(struct srcu_struct *srcu, int key);
void rdma_helper_module_put(struct module *module);

/* uverbs.c */
struct file;
struct ib_uobject;
struct ib_uverbs_file;
struct uverbs_api_object;
struct uverbs_obj_fd_type;

void rdma_helper_rwsem_assert_held(struct rw_semaphore *sem);
struct ib_device *rdma_helper_ufile_device(struct ib_uverbs_file *file);
const struct uverbs_api_object *rdma_helper_ufile_type(struct ib_uverbs_file *file, u16 id);
void rdma_helper_ufile_free(struct ib_uverbs_file *file);
struct ib_uobject *rdma_helper_uobject_alloc(size_t size);
void rdma_helper_uobject_free(struct ib_uobject *uobject);
void rdma_helper_uobject_list_add(struct ib_uobject *uobject, struct ib_uverbs_file *file);
void rdma_helper_uobject_list_del(struct ib_uobject *uobject);
struct file *rdma_helper_uobject_file(const struct uverbs_obj_fd_type *type);
void rdma_helper_fput_now(struct file *file);

/* user.c */
unsigned long rdma_helper_clear_user(void __user *to, unsigned long n);
int rdma_helper_put_user_u16(u16 value, u16 __user *to);
int rdma_helper_copy_struct_from_user(void *dst, size_t ksize, const void __user *src,
				      size_t usize);
int rdma_helper_get_user_u64(u64 *value, const u64 __user *from);
int rdma_helper_put_user_u64(u64 value, u64 __user *to);
int rdma_helper_put_user_u32(u32 value, u32 __user *to);
bool rdma_helper_get_words(u64 *to, const u64 __user *from, unsigned int count);
bool rdma_helper_access_ok(const void __user *at, unsigned long len);
bool rdma_helper_buffer_cleared(const void __user *at, unsigned long len);

/* uverbs_main.c */
struct ib_ucontext;
struct ib_uverbs_device;
struct dma_buf_attachment;
struct ib_uverbs_event_queue;
struct p2pdma_provider;
struct phys_vec;
struct sg_table;
struct uverbs_api;

int rdma_helper_uverbs_device_init(struct ib_uverbs_device *dev, struct ib_device *ibdev,
				   struct uverbs_api *api, struct srcu_struct *quick);
void rdma_helper_uverbs_device_destroy(struct ib_uverbs_device *dev, struct srcu_struct *quick);
struct uverbs_api_object *rdma_helper_uverbs_api_add(struct uverbs_api *api, u32 key);
void rdma_helper_uverbs_api_remove(struct uverbs_api *api, u32 key);
struct ib_device *rdma_helper_uverbs_ibdev(struct ib_uverbs_device *dev);
struct ib_device *rdma_helper_uverbs_ibdev_quick(struct ib_uverbs_device *dev,
						 struct srcu_struct *quick);
void *rdma_helper_srcu_read_lock_fast(struct srcu_struct *srcu);
void rdma_helper_srcu_read_unlock_fast(struct srcu_struct *srcu, void *key);
void rdma_helper_uverbs_disassociate(struct ib_uverbs_device *dev, struct srcu_struct *quick);
struct ib_uverbs_file *rdma_helper_ufile_new(struct ib_uverbs_device *dev);
void rdma_helper_ufile_set_ucontext(struct ib_uverbs_file *file, struct ib_ucontext *ucontext);
void rdma_helper_ufile_set_async(struct ib_uverbs_file *file, void *async);
bool rdma_helper_try_module_get(struct module *module);
bool rdma_helper_file_creds_changed(struct file *file);
void *rdma_helper_drv_zalloc(struct ib_device *dev, size_t size);
bool rdma_helper_is_port_valid(const struct ib_device *dev, u32 port);
u32 rdma_helper_ah_find_type(struct ib_device *dev, u32 port);
bool rdma_helper_may_run_on(unsigned int cpu);
void rdma_helper_dmabuf_file_init(struct ib_uverbs_dmabuf_file *file);
struct sg_table *rdma_helper_dma_buf_map(struct dma_buf_attachment *attachment,
					 struct p2pdma_provider *provider,
					 struct phys_vec *vec, u32 direction);
void rdma_helper_dma_buf_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
			       u32 direction);
void rdma_helper_vma_zap(struct vm_area_struct *vma);
bool rdma_helper_vma_wipe_on_fork(struct vm_area_struct *copy, struct vm_area_struct *original);
bool rdma_helper_vma_may_write(struct vm_area_struct *vma);
struct page *rdma_helper_zero_page(unsigned long address);
void rdma_helper_get_page(struct page *page);
bool rdma_helper_port_needs_grh(struct ib_device *dev, u32 port);
bool rdma_helper_port_opa_ah(struct ib_device *dev, u32 port);

/* cma.c */
struct ib_pd;
struct ib_qp_init_attr;
struct rdma_cm_event;
struct rdma_helper_cma_neigh {
	const struct net *net;
	int ifindex;
	int family;
	u32 len;
	u8 addr[16];
	u8 hardware[32];
};
u32 rdma_helper_cma_port(struct ib_device *device, u32 port);
bool rdma_helper_cma_capable(int cap);
void rdma_helper_cma_port_range(const struct net *net, int *low, int *high);
bool rdma_helper_cma_v6_only(const struct net *net);
bool rdma_helper_cma_route4(struct net_device *dev, __be32 saddr, __be32 daddr);
bool rdma_helper_cma_route6(struct net_device *dev, const void *saddr, const void *daddr);
int rdma_helper_cma_tc(const struct net_device *dev, u32 prio);
u32 rdma_helper_cma_vlan_prio(struct net_device *dev, u32 prio);
void rdma_helper_cma_neigh(const void *neigh, struct rdma_helper_cma_neigh *copy);
void rdma_helper_cma_default_group(void *group, void *parent);

/* cma/trace.c */
void rdma_helper_cma_trace(u32 step, const void *id);
void rdma_helper_cma_trace_attach(const void *id, const struct ib_device *device);
void rdma_helper_cma_trace_qp(const void *id, const struct ib_pd *pd,
			      const struct ib_qp_init_attr *attr, int result);
void rdma_helper_cma_trace_request(const void *id, int event);
void rdma_helper_cma_trace_event(const void *id, const struct rdma_cm_event *event);
void rdma_helper_cma_trace_done(const void *id, const struct rdma_cm_event *event, int result);
void rdma_helper_cma_trace_device(const struct ib_device *device, bool added);

/* cmid.c */
struct rdma_cm_id;
struct sa_path_rec;

enum {
	RDMA_HELPER_CM_OTHER,
	RDMA_HELPER_CM_IB,
	RDMA_HELPER_CM_ROCE,
	RDMA_HELPER_CM_IWARP,
};

/* What an id knows of its ends. GIDs are those that the addresses alone give. */
struct rdma_helper_cm_route {
	u8 src[48]; /* sizeof(struct sockaddr_ib), the longest one */
	u8 dst[48];
	u8 sgid[16];
	u8 dgid[16];
	u64 node_guid;
	u32 index;
	u32 port;
	u32 paths;
	u16 pkey;
	u8 link;
	bool has_device;
};

void rdma_helper_cm_route(struct rdma_cm_id *id, struct rdma_helper_cm_route *to);
void rdma_helper_cm_pack_path(struct sa_path_rec *path, u8 *to);
int rdma_helper_cm_set_path(struct rdma_cm_id *id, u8 *from);
u32 rdma_helper_cm_services(struct rdma_cm_id *id, u8 *to, size_t room);

/* misc.c */
struct ib_client_nl_info;

bool rdma_helper_opener_changed(struct file *file);
void rdma_helper_nl_info_global(struct ib_client_nl_info *info, u64 abi, struct device *cdev);

#ifdef RDMA_HELPERS_INLINE
#pragma clang attribute pop
#endif

#endif
