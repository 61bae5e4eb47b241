// SPDX-License-Identifier: GPL-2.0
/*
 * What Rust cannot express: symbol exports, module parameters with
 * permissions, variadic functions. No logic.
 */
#include <linux/export.h>
#include <linux/module.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/iter.h>
#include <rdma/uverbs_ioctl.h>
#include "core_priv.h"
#include "rdma_core.h"
#include "restrack.h"

/* device */

/* Network namespace mode. Changed by device/netns.rs. */
bool rdma_netns_shared = true;
module_param_named(netns_mode, rdma_netns_shared, bool, 0444);
MODULE_PARM_DESC(netns_mode, "Share devices among network namespaces (default: on)");

/* Allocated and destroyed by device/queues.rs. */
struct workqueue_struct *ib_wq;
EXPORT_SYMBOL_GPL(ib_wq);

EXPORT_SYMBOL(_ib_alloc_device);
EXPORT_SYMBOL(ib_dealloc_device);
EXPORT_SYMBOL(ib_device_get_by_netdev);
EXPORT_SYMBOL(ib_device_get_netdev);
EXPORT_SYMBOL(ib_device_put);
EXPORT_SYMBOL(ib_device_set_netdev);
EXPORT_SYMBOL(ib_dispatch_port_state_event);
EXPORT_SYMBOL(ib_find_gid);
EXPORT_SYMBOL(ib_find_pkey);
EXPORT_SYMBOL(ib_get_device_fw_str);
EXPORT_SYMBOL(ib_get_net_dev_by_params);
EXPORT_SYMBOL(ib_modify_device);
EXPORT_SYMBOL(ib_modify_port);
EXPORT_SYMBOL(ib_port_immutable_read);
EXPORT_SYMBOL(ib_query_netdev_port);
EXPORT_SYMBOL(ib_query_pkey);
EXPORT_SYMBOL(ib_query_port);
EXPORT_SYMBOL(ib_register_client);
EXPORT_SYMBOL(ib_register_device);
EXPORT_SYMBOL(ib_register_event_handler);
EXPORT_SYMBOL(ib_set_client_data);
EXPORT_SYMBOL(ib_set_device_ops);
EXPORT_SYMBOL(ib_unregister_client);
EXPORT_SYMBOL(ib_unregister_device);
EXPORT_SYMBOL(ib_unregister_device_and_put);
EXPORT_SYMBOL(ib_unregister_device_queued);
EXPORT_SYMBOL(ib_unregister_driver);
EXPORT_SYMBOL(ib_unregister_event_handler);
EXPORT_SYMBOL(rdma_dev_access_netns);
EXPORT_SYMBOL(rdma_dev_has_raw_cap);
EXPORT_SYMBOL(ib_dispatch_event);
#ifdef CONFIG_INFINIBAND_VIRT_DMA
EXPORT_SYMBOL(ib_dma_virt_map_sg);
#endif

static void device_printk(int level, const struct ib_device *device,
			  struct va_format *text)
{
	const struct device *parent = device ? device->dev.parent : NULL;

	if (parent)
		dev_printk_emit(level, parent, "%s %s %s: %pV",
				dev_driver_string(parent), dev_name(parent),
				dev_name(&device->dev), text);
	else if (device)
		printk(KERN_SOH "%d%s: %pV", level, dev_name(&device->dev), text);
	else
		printk(KERN_SOH "%d(NULL ib_device): %pV", level, text);
}

#define DEVICE_PRINTK(name, level)					\
void name(const struct ib_device *device, const char *format, ...)	\
{									\
	struct va_format text = { .fmt = format };			\
	va_list args;							\
									\
	va_start(args, format);						\
	text.va = &args;						\
	device_printk(level, device, &text);				\
	va_end(args);							\
}									\
EXPORT_SYMBOL(name)

DEVICE_PRINTK(ibdev_emerg, LOGLEVEL_EMERG);
DEVICE_PRINTK(ibdev_alert, LOGLEVEL_ALERT);
DEVICE_PRINTK(ibdev_crit, LOGLEVEL_CRIT);
DEVICE_PRINTK(ibdev_err, LOGLEVEL_ERR);
DEVICE_PRINTK(ibdev_warn, LOGLEVEL_WARNING);
DEVICE_PRINTK(ibdev_notice, LOGLEVEL_NOTICE);
DEVICE_PRINTK(ibdev_info, LOGLEVEL_INFO);

/* gid, cache */
EXPORT_SYMBOL(ib_cache_gid_parse_type_str);
EXPORT_SYMBOL(ib_cache_gid_type_str);
EXPORT_SYMBOL(ib_find_cached_pkey);
EXPORT_SYMBOL(ib_get_cached_lmc);
EXPORT_SYMBOL(ib_get_cached_pkey);
EXPORT_SYMBOL(ib_get_cached_port_state);
EXPORT_SYMBOL(ib_get_cached_subnet_prefix);
EXPORT_SYMBOL(rdma_find_gid);
EXPORT_SYMBOL(rdma_find_gid_by_port);
EXPORT_SYMBOL(rdma_get_gid_attr);
EXPORT_SYMBOL(rdma_hold_gid_attr);
EXPORT_SYMBOL(rdma_is_zero_gid);
EXPORT_SYMBOL(rdma_put_gid_attr);
EXPORT_SYMBOL(rdma_query_gid);
EXPORT_SYMBOL(rdma_query_gid_table);
EXPORT_SYMBOL(rdma_read_gid_attr_ndev_rcu);
EXPORT_SYMBOL(rdma_read_gid_hw_context);
EXPORT_SYMBOL(rdma_read_gid_l2_fields);
EXPORT_SYMBOL(rdma_roce_rescan_device);
EXPORT_SYMBOL(rdma_roce_rescan_port);
EXPORT_SYMBOL(roce_del_all_netdev_gids);
EXPORT_SYMBOL(roce_gid_type_mask_support);
EXPORT_SYMBOL(zgid);

/* verbs, cgroup */
#include <rdma/ib_addr.h>

EXPORT_SYMBOL(__ib_alloc_pd);
EXPORT_SYMBOL(__ib_create_cq);
EXPORT_SYMBOL(ib_advise_mr);
EXPORT_SYMBOL(ib_alloc_mr);
EXPORT_SYMBOL(ib_alloc_mr_integrity);
EXPORT_SYMBOL(ib_alloc_xrcd_user);
EXPORT_SYMBOL(ib_attach_mcast);
EXPORT_SYMBOL(ib_check_mr_status);
EXPORT_SYMBOL(ib_close_qp);
EXPORT_SYMBOL(ib_create_ah_from_wc);
EXPORT_SYMBOL(ib_create_qp_kernel);
EXPORT_SYMBOL(ib_create_qp_user);
EXPORT_SYMBOL(ib_create_srq_user);
EXPORT_SYMBOL(ib_create_wq);
EXPORT_SYMBOL(ib_dealloc_pd_user);
EXPORT_SYMBOL(ib_dealloc_xrcd_user);
EXPORT_SYMBOL(ib_dereg_mr_user);
EXPORT_SYMBOL(ib_destroy_cq_user);
EXPORT_SYMBOL(ib_destroy_qp_user);
EXPORT_SYMBOL(ib_destroy_srq_user);
EXPORT_SYMBOL(ib_destroy_wq_user);
EXPORT_SYMBOL(ib_detach_mcast);
EXPORT_SYMBOL(ib_drain_qp);
EXPORT_SYMBOL(ib_drain_rq);
EXPORT_SYMBOL(ib_drain_sq);
EXPORT_SYMBOL(ib_event_msg);
EXPORT_SYMBOL(ib_get_eth_speed);
EXPORT_SYMBOL(ib_get_gids_from_rdma_hdr);
EXPORT_SYMBOL(ib_get_rdma_header_version);
EXPORT_SYMBOL(ib_get_vf_config);
EXPORT_SYMBOL(ib_get_vf_guid);
EXPORT_SYMBOL(ib_get_vf_stats);
EXPORT_SYMBOL(ib_init_ah_attr_from_wc);
EXPORT_SYMBOL(ib_map_mr_sg);
EXPORT_SYMBOL(ib_map_mr_sg_pi);
EXPORT_SYMBOL(ib_modify_qp);
EXPORT_SYMBOL(ib_modify_qp_is_ok);
EXPORT_SYMBOL(ib_modify_qp_with_udata);
EXPORT_SYMBOL(ib_modify_srq);
EXPORT_SYMBOL(ib_open_qp);
EXPORT_SYMBOL(ib_port_attr_to_speed_info);
EXPORT_SYMBOL(ib_process_cq_direct);
EXPORT_SYMBOL(ib_qp_usecnt_dec);
EXPORT_SYMBOL(ib_qp_usecnt_inc);
EXPORT_SYMBOL(ib_query_qp);
EXPORT_SYMBOL(ib_query_srq);
EXPORT_SYMBOL(ib_rate_to_mbps);
EXPORT_SYMBOL(ib_rate_to_mult);
EXPORT_SYMBOL(ib_reg_user_mr);
EXPORT_SYMBOL(ib_set_vf_guid);
EXPORT_SYMBOL(ib_set_vf_link_state);
EXPORT_SYMBOL(ib_sg_to_pages);
EXPORT_SYMBOL(ib_wc_status_msg);
#ifdef CONFIG_SECURITY_INFINIBAND
EXPORT_SYMBOL(ib_create_qp_security);
#endif
EXPORT_SYMBOL(mult_to_ib_rate);
EXPORT_SYMBOL(rdma_addr_size);
EXPORT_SYMBOL(rdma_addr_size_in6);
EXPORT_SYMBOL(rdma_addr_size_kss);
EXPORT_SYMBOL(rdma_alloc_netdev);
EXPORT_SYMBOL(rdma_copy_ah_attr);
EXPORT_SYMBOL(rdma_copy_src_l2_addr);
EXPORT_SYMBOL(rdma_create_ah);
EXPORT_SYMBOL(rdma_create_user_ah);
EXPORT_SYMBOL(rdma_destroy_ah_attr);
EXPORT_SYMBOL(rdma_destroy_ah_user);
EXPORT_SYMBOL(rdma_init_netdev);
EXPORT_SYMBOL(rdma_modify_ah);
EXPORT_SYMBOL(rdma_move_ah_attr);
EXPORT_SYMBOL(rdma_move_grh_sgid_attr);
EXPORT_SYMBOL(rdma_node_get_transport);
EXPORT_SYMBOL(rdma_port_get_link_layer);
EXPORT_SYMBOL(rdma_query_ah);
EXPORT_SYMBOL(rdma_replace_ah_attr);
EXPORT_SYMBOL(rdma_set_cq_moderation);
EXPORT_SYMBOL(rdma_translate_ip);

/* restrack, nldev */
EXPORT_SYMBOL(rdma_link_register);
EXPORT_SYMBOL(rdma_link_unregister);
EXPORT_SYMBOL(ibnl_put_attr);
EXPORT_SYMBOL(ibnl_put_msg);
EXPORT_SYMBOL(rdma_nl_chk_listeners);
EXPORT_SYMBOL(rdma_nl_get_privileged_qkey);
EXPORT_SYMBOL(rdma_nl_put_driver_string);
EXPORT_SYMBOL(rdma_nl_put_driver_u32);
EXPORT_SYMBOL(rdma_nl_put_driver_u32_hex);
EXPORT_SYMBOL(rdma_nl_put_driver_u64);
EXPORT_SYMBOL(rdma_nl_put_driver_u64_hex);
EXPORT_SYMBOL(rdma_nl_stat_hwcounter_entry);
EXPORT_SYMBOL(rdma_nl_multicast);
EXPORT_SYMBOL(rdma_nl_register);
EXPORT_SYMBOL(rdma_nl_unicast);
EXPORT_SYMBOL(rdma_nl_unicast_wait);
EXPORT_SYMBOL(rdma_nl_unregister);
EXPORT_SYMBOL(rdma_restrack_abort_del);
EXPORT_SYMBOL(rdma_restrack_add);
EXPORT_SYMBOL(rdma_restrack_begin_del);
EXPORT_SYMBOL(rdma_restrack_commit_del);
EXPORT_SYMBOL(rdma_restrack_count);
EXPORT_SYMBOL(rdma_restrack_del);
EXPORT_SYMBOL(rdma_restrack_get);
EXPORT_SYMBOL(rdma_restrack_get_byid);
EXPORT_SYMBOL(rdma_restrack_new);
EXPORT_SYMBOL(rdma_restrack_parent_name);
EXPORT_SYMBOL(rdma_restrack_put);
EXPORT_SYMBOL(rdma_restrack_set_name);
EXPORT_SYMBOL(rdma_restrack_sync);

/* sysfs, stats */
#include <rdma/ib_sysfs.h>

EXPORT_SYMBOL(ib_port_register_client_groups);
EXPORT_SYMBOL(ib_port_sysfs_get_ibdev_kobj);
EXPORT_SYMBOL(ib_port_unregister_client_groups);
EXPORT_SYMBOL(rdma_alloc_hw_stats_struct);
EXPORT_SYMBOL(rdma_free_hw_stats_struct);
#ifdef CONFIG_CGROUP_RDMA
EXPORT_SYMBOL(ib_rdmacg_try_charge);
EXPORT_SYMBOL(ib_rdmacg_uncharge);
#endif

/* umem */
EXPORT_SYMBOL(__rdma_block_iter_next);
EXPORT_SYMBOL(__rdma_block_iter_start);
EXPORT_SYMBOL(ib_umem_check_rereg);
EXPORT_SYMBOL(ib_umem_copy_from);
EXPORT_SYMBOL(ib_umem_find_best_pgsz);
EXPORT_SYMBOL(ib_umem_get_attr);
EXPORT_SYMBOL(ib_umem_get_attr_or_va);
EXPORT_SYMBOL(ib_umem_get_cq_buf);
EXPORT_SYMBOL(ib_umem_get_cq_buf_or_va);
EXPORT_SYMBOL(ib_umem_get_desc);
EXPORT_SYMBOL(ib_umem_release);
EXPORT_SYMBOL(ib_umem_dmabuf_get);
EXPORT_SYMBOL(ib_umem_dmabuf_get_pinned);
EXPORT_SYMBOL(ib_umem_dmabuf_get_pinned_revocable_and_lock);
EXPORT_SYMBOL(ib_umem_dmabuf_get_pinned_with_dma_device);
EXPORT_SYMBOL(ib_umem_dmabuf_map_pages);
EXPORT_SYMBOL(ib_umem_dmabuf_revoke);
EXPORT_SYMBOL(ib_umem_dmabuf_revoke_lock);
EXPORT_SYMBOL(ib_umem_dmabuf_revoke_unlock);
EXPORT_SYMBOL(ib_umem_dmabuf_set_revoke_locked);
EXPORT_SYMBOL(ib_umem_dmabuf_unmap_pages);
#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
EXPORT_SYMBOL(ib_umem_odp_alloc_child);
EXPORT_SYMBOL(ib_umem_odp_alloc_implicit);
EXPORT_SYMBOL(ib_umem_odp_get);
EXPORT_SYMBOL(ib_umem_odp_map_dma_and_lock);
EXPORT_SYMBOL(ib_umem_odp_release);
EXPORT_SYMBOL(ib_umem_odp_unmap_dma_pages);
#endif

/* uverbs */
EXPORT_SYMBOL(_ib_copy_validate_udata_cm_fail);
EXPORT_SYMBOL(_ib_copy_validate_udata_in);
EXPORT_SYMBOL(_ib_respond_udata);
EXPORT_SYMBOL(_uverbs_alloc);
EXPORT_SYMBOL(_uverbs_get_const_signed);
EXPORT_SYMBOL(_uverbs_get_const_unsigned);
EXPORT_SYMBOL(ib_uverbs_get_ucontext_file);
EXPORT_SYMBOL(rdma_umap_priv_init);
EXPORT_SYMBOL(rdma_user_mmap_entry_get);
EXPORT_SYMBOL(rdma_user_mmap_entry_get_pgoff);
EXPORT_SYMBOL(rdma_user_mmap_entry_insert);
EXPORT_SYMBOL(rdma_user_mmap_entry_insert_range);
EXPORT_SYMBOL(rdma_user_mmap_entry_put);
EXPORT_SYMBOL(rdma_user_mmap_entry_remove);
EXPORT_SYMBOL(rdma_user_mmap_io);
EXPORT_SYMBOL(uverbs_copy_to);
EXPORT_SYMBOL(uverbs_copy_to_struct_or_zero);
EXPORT_SYMBOL(uverbs_destroy_def_handler);
EXPORT_SYMBOL(uverbs_finalize_uobj_create);
EXPORT_SYMBOL(uverbs_get_buffer_desc);
EXPORT_SYMBOL_NS_GPL(uverbs_get_cleared_udata, "rdma_core");
EXPORT_SYMBOL(uverbs_get_flags32);
EXPORT_SYMBOL(uverbs_get_flags64);

/* pack */
#include <rdma/ib_pack.h>

EXPORT_SYMBOL(ib_pack);
EXPORT_SYMBOL(ib_ud_header_init);
EXPORT_SYMBOL(ib_ud_header_pack);
EXPORT_SYMBOL(ib_ud_ip4_csum);
EXPORT_SYMBOL(ib_unpack);

/* frmr */
#include <rdma/frmr_pools.h>

EXPORT_SYMBOL(ib_frmr_pool_drop);
EXPORT_SYMBOL(ib_frmr_pool_pop);
EXPORT_SYMBOL(ib_frmr_pool_push);
EXPORT_SYMBOL(ib_frmr_pools_cleanup);
EXPORT_SYMBOL(ib_frmr_pools_init);

/* cq, rw, address resolution */
#include <rdma/mr_pool.h>
#include <rdma/rw.h>

/* Read by rw.rs. */
bool rdma_rw_force_mr;
module_param_named(force_mr, rdma_rw_force_mr, bool, 0);
MODULE_PARM_DESC(force_mr, "Use memory regions for all transfers (default: off)");

EXPORT_SYMBOL(__ib_alloc_cq);
EXPORT_SYMBOL(__ib_alloc_cq_any);
EXPORT_SYMBOL(ib_cq_pool_get);
EXPORT_SYMBOL(ib_cq_pool_put);
EXPORT_SYMBOL(ib_free_cq);
/* sa */
#include <rdma/ib_sa.h>

EXPORT_SYMBOL(ib_init_ah_attr_from_path);
EXPORT_SYMBOL(ib_init_ah_from_mcmember);
EXPORT_SYMBOL(ib_sa_cancel_query);
EXPORT_SYMBOL(ib_sa_free_multicast);
EXPORT_SYMBOL(ib_sa_get_mcmember_rec);
EXPORT_SYMBOL(ib_sa_guid_info_rec_query);
EXPORT_SYMBOL(ib_sa_join_multicast);
EXPORT_SYMBOL(ib_sa_pack_path);
EXPORT_SYMBOL(ib_sa_pack_service);
EXPORT_SYMBOL(ib_sa_path_rec_get);
EXPORT_SYMBOL(ib_sa_register_client);
EXPORT_SYMBOL(ib_sa_service_rec_get);
EXPORT_SYMBOL(ib_sa_unpack_path);
EXPORT_SYMBOL(ib_sa_unpack_service);
EXPORT_SYMBOL(ib_sa_unregister_client);
EXPORT_SYMBOL(ib_mr_pool_destroy);
EXPORT_SYMBOL(ib_mr_pool_get);
EXPORT_SYMBOL(ib_mr_pool_init);
EXPORT_SYMBOL(ib_mr_pool_put);
EXPORT_SYMBOL(rdma_addr_cancel);
EXPORT_SYMBOL(rdma_resolve_ip);
EXPORT_SYMBOL(rdma_rw_ctx_destroy);
EXPORT_SYMBOL(rdma_rw_ctx_destroy_bvec);
EXPORT_SYMBOL(rdma_rw_ctx_destroy_signature);
EXPORT_SYMBOL(rdma_rw_ctx_init);
EXPORT_SYMBOL(rdma_rw_ctx_init_bvec);
EXPORT_SYMBOL(rdma_rw_ctx_post);
EXPORT_SYMBOL(rdma_rw_ctx_signature_init);
EXPORT_SYMBOL(rdma_rw_ctx_wrs);
EXPORT_SYMBOL(rdma_rw_max_send_wr);
EXPORT_SYMBOL(rdma_rw_mr_factor);
/* mad */
#include <rdma/ib_mad.h>

/* Queue sizes of the MAD queue pairs, in work requests. Read by mad.rs. */
int rdma_mad_send_queue = 128;
int rdma_mad_recv_queue = 512;
module_param_named(send_queue_size, rdma_mad_send_queue, int, 0444);
MODULE_PARM_DESC(send_queue_size, "Size of send queue in number of work requests");
module_param_named(recv_queue_size, rdma_mad_recv_queue, int, 0444);
MODULE_PARM_DESC(recv_queue_size, "Size of receive queue in number of work requests");

EXPORT_SYMBOL(ib_create_send_mad);
EXPORT_SYMBOL(ib_free_recv_mad);
EXPORT_SYMBOL(ib_free_send_mad);
EXPORT_SYMBOL(ib_get_mad_data_offset);
EXPORT_SYMBOL(ib_get_rmpp_segment);
EXPORT_SYMBOL(ib_is_mad_class_rmpp);
EXPORT_SYMBOL(ib_mad_kernel_rmpp_agent);
EXPORT_SYMBOL(ib_modify_mad);
EXPORT_SYMBOL(ib_post_send_mad);
EXPORT_SYMBOL(ib_register_mad_agent);
EXPORT_SYMBOL(ib_response_mad);
EXPORT_SYMBOL(ib_unregister_mad_agent);
