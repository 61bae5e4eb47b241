// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_uverbs: devices, open files and user memory. */
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/dma-buf-mapping.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <rdma/ib.h>
#include <rdma/uverbs_ioctl.h>
#include "uverbs.h"
#include "rdma_core.h"
#include "helpers.h"

/* quick: a domain of quick calls, beside disassociate_srcu. */
int rdma_helper_uverbs_device_init(struct ib_uverbs_device *dev, struct ib_device *ibdev,
				   struct uverbs_api *api, struct srcu_struct *quick)
{
	int ret = init_srcu_struct(&dev->disassociate_srcu);

	if (ret)
		return ret;
	ret = init_srcu_struct_fast(quick);
	if (ret) {
		cleanup_srcu_struct(&dev->disassociate_srcu);
		return ret;
	}
	INIT_RADIX_TREE(&api->radix, GFP_KERNEL);
	dev->uapi = api;
	refcount_set(&dev->refcount, 1);
	init_completion(&dev->comp);
	mutex_init(&dev->xrcd_tree_mutex);
	mutex_init(&dev->lists_mutex);
	INIT_LIST_HEAD(&dev->uverbs_file_list);
	rcu_assign_pointer(dev->ib_dev, ibdev);
	dev->num_comp_vectors = ibdev->num_comp_vectors;
	return 0;
}

void rdma_helper_uverbs_device_destroy(struct ib_uverbs_device *dev, struct srcu_struct *quick)
{
	cleanup_srcu_struct(quick);
	cleanup_srcu_struct(&dev->disassociate_srcu);
	mutex_destroy(&dev->lists_mutex);
	mutex_destroy(&dev->xrcd_tree_mutex);
}

struct uverbs_api_object *rdma_helper_uverbs_api_add(struct uverbs_api *api, u32 key)
{
	struct uverbs_api_object *object = kzalloc(sizeof(*object), GFP_KERNEL);
	int ret;

	if (!object)
		return ERR_PTR(-ENOMEM);
	ret = radix_tree_insert(&api->radix, key, object);
	if (ret) {
		kfree(object);
		return ERR_PTR(ret);
	}
	return object;
}

void rdma_helper_uverbs_api_remove(struct uverbs_api *api, u32 key)
{
	kfree(radix_tree_delete(&api->radix, key));
}

struct ib_device *rdma_helper_uverbs_ibdev(struct ib_uverbs_device *dev)
{
	return srcu_dereference(dev->ib_dev, &dev->disassociate_srcu);
}

struct ib_device *rdma_helper_uverbs_ibdev_quick(struct ib_uverbs_device *dev,
						 struct srcu_struct *quick)
{
	return srcu_dereference(dev->ib_dev, quick);
}

void *rdma_helper_srcu_read_lock_fast(struct srcu_struct *srcu)
{
	return (void *)(__force unsigned long)srcu_read_lock_fast(srcu);
}

void rdma_helper_srcu_read_unlock_fast(struct srcu_struct *srcu, void *key)
{
	srcu_read_unlock_fast(srcu, (__force struct srcu_ctr __percpu *)(unsigned long)key);
}

void rdma_helper_uverbs_disassociate(struct ib_uverbs_device *dev, struct srcu_struct *quick)
{
	rcu_assign_pointer(dev->ib_dev, NULL);
	synchronize_srcu(&dev->disassociate_srcu);
	synchronize_srcu(quick);
}

struct ib_uverbs_file *rdma_helper_ufile_new(struct ib_uverbs_device *dev)
{
	struct ib_uverbs_file *file = kzalloc(sizeof(*file), GFP_USERS);

	if (!file)
		return NULL;
	file->device = dev;
	kref_init(&file->ref);
	mutex_init(&file->ucontext_lock);
	spin_lock_init(&file->uobjects_lock);
	INIT_LIST_HEAD(&file->uobjects);
	INIT_LIST_HEAD(&file->list);
	init_rwsem(&file->hw_destroy_rwsem);
	mutex_init(&file->umap_lock);
	INIT_LIST_HEAD(&file->umaps);
	return file;
}

void rdma_helper_ufile_set_ucontext(struct ib_uverbs_file *file, struct ib_ucontext *ucontext)
{
	smp_store_release(&file->ucontext, ucontext);
}

void rdma_helper_ufile_set_async(struct ib_uverbs_file *file, void *async)
{
	smp_store_release(&file->default_async_file, async);
}

bool rdma_helper_try_module_get(struct module *module)
{
	return try_module_get(module);
}

bool rdma_helper_file_creds_changed(struct file *file)
{
	return !ib_safe_file_access(file);
}

void *rdma_helper_drv_zalloc(struct ib_device *dev, size_t size)
{
	return rdma_zalloc_obj(dev, size, GFP_USERS, false);
}

bool rdma_helper_is_port_valid(const struct ib_device *dev, u32 port)
{
	return rdma_is_port_valid(dev, port);
}

u32 rdma_helper_ah_find_type(struct ib_device *dev, u32 port)
{
	return rdma_ah_find_type(dev, port);
}

bool rdma_helper_may_run_on(unsigned int cpu)
{
	return cpumask_test_cpu(cpu, current->cpus_ptr);
}

/* Initialises the lock of an exported DMA-buf, which ib_core takes, in kernels that have one. */
void rdma_helper_dmabuf_file_init(struct ib_uverbs_dmabuf_file *file)
{
#ifdef RDMA_HAS_DMABUF_RELEASE_LOCK
	mutex_init(&file->dmabuf_release_lock);
#endif
}

struct sg_table *rdma_helper_dma_buf_map(struct dma_buf_attachment *attachment,
					 struct p2pdma_provider *provider,
					 struct phys_vec *vec, u32 direction)
{
	return dma_buf_phys_vec_to_sgt(attachment, provider, vec, 1, vec->len, direction);
}

void rdma_helper_dma_buf_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
			       u32 direction)
{
	dma_buf_free_sgt(attachment, table, direction);
}

void rdma_helper_vma_zap(struct vm_area_struct *vma)
{
	zap_special_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start);
}

/* Return whether a mapping is being copied by fork. If so, its pages will not be copied. */
bool rdma_helper_vma_wipe_on_fork(struct vm_area_struct *copy, struct vm_area_struct *original)
{
	if (copy->vm_mm == original->vm_mm)
		return false;
	vm_flags_set(copy, VM_WIPEONFORK);
	return true;
}

bool rdma_helper_vma_may_write(struct vm_area_struct *vma)
{
	return vma->vm_flags & (VM_WRITE | VM_MAYWRITE);
}

struct page *rdma_helper_zero_page(unsigned long address)
{
	return ZERO_PAGE(address);
}

void rdma_helper_get_page(struct page *page)
{
	get_page(page);
}

bool rdma_helper_port_needs_grh(struct ib_device *dev, u32 port)
{
	return rdma_is_grh_required(dev, port);
}

bool rdma_helper_port_opa_ah(struct ib_device *dev, u32 port)
{
	return rdma_cap_opa_ah(dev, port);
}
