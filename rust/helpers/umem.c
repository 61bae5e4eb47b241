// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_core: user memory, and user calls. */
#include <linux/dma-resv.h>
#include <linux/hmm.h>
#include <linux/hugetlb.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/uaccess.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_umem_odp.h>
#include <rdma/ib_verbs.h>
#include <rdma/uverbs_ioctl.h>
#include "helpers.h"

bool rdma_helper_ib_uses_virt_dma(struct ib_device *dev)
{
	return ib_uses_virt_dma(dev);
}

bool rdma_helper_ib_access_writable(int access)
{
	return ib_access_writable(access);
}

int rdma_helper_ib_check_mr_access(struct ib_device *dev, unsigned int flags)
{
	return ib_check_mr_access(dev, flags);
}

int rdma_helper_ib_dma_map_sgtable(struct ib_device *dev, struct sg_table *sgt,
				   unsigned long attrs)
{
	return ib_dma_map_sgtable_attrs(dev, sgt, DMA_BIDIRECTIONAL, attrs);
}

void rdma_helper_ib_dma_unmap_sgtable(struct ib_device *dev, struct sg_table *sgt,
				      unsigned long attrs)
{
	ib_dma_unmap_sgtable_attrs(dev, sgt, DMA_BIDIRECTIONAL, attrs);
}

unsigned int rdma_helper_ib_dma_max_seg_size(struct ib_device *dev)
{
	return ib_dma_max_seg_size(dev);
}

void rdma_helper_sg_set_dma_address(struct scatterlist *sg, dma_addr_t addr)
{
	sg_dma_address(sg) = addr;
}

void rdma_helper_sg_set_dma_len(struct scatterlist *sg, unsigned int len)
{
	sg_dma_len(sg) = len;
}

unsigned long rdma_helper_rlimit_memlock(void)
{
	return rlimit(RLIMIT_MEMLOCK);
}

s64 rdma_helper_pinned_vm_add(struct mm_struct *mm, s64 pages)
{
	return atomic64_add_return(pages, &mm->pinned_vm);
}

void rdma_helper_pinned_vm_sub(struct mm_struct *mm, s64 pages)
{
	atomic64_sub(pages, &mm->pinned_vm);
}

void rdma_helper_dma_resv_assert_held(struct dma_resv *resv)
{
	dma_resv_assert_held(resv);
}

unsigned int rdma_helper_hpage_shift(void)
{
#ifdef CONFIG_HUGETLB_PAGE
	return HPAGE_SHIFT;
#else
	return PAGE_SHIFT;
#endif
}

#ifdef CONFIG_INFINIBAND_ON_DEMAND_PAGING
void rdma_helper_odp_init_mutex(struct ib_umem_odp *odp)
{
	mutex_init(&odp->umem_mutex);
}

void rdma_helper_odp_assert_held(struct ib_umem_odp *odp)
{
	lockdep_assert_held(&odp->umem_mutex);
}

/*
 * Faults in the pages of a range that a lookup did not find. Returns EBUSY if there were some: the
 * lookup must be repeated. The caller holds the mmap lock, which is not held while a fault waits for
 * the first time (see read_files() in odp.c for the second).
 */
static int fault_in(struct hmm_range *range, unsigned long asked)
{
	const bool write = asked & HMM_PFN_REQ_WRITE;
	const unsigned int flags = FAULT_FLAG_REMOTE | (write ? FAULT_FLAG_WRITE : 0);
	const unsigned long wanted = HMM_PFN_VALID | (write ? HMM_PFN_WRITE : 0);
	struct mm_struct *mm = range->notifier->mm;
	unsigned long *pfn = range->hmm_pfns;
	unsigned long addr;
	int ret, found = 0;

	for (addr = range->start; addr < range->end; addr += PAGE_SIZE, pfn++) {
		struct vm_area_struct *vma;
		bool unlocked;

		if (*pfn & HMM_PFN_ERROR) {
			struct hmm_range page = *range;

			/* An error in most cases. HMM knows those in which a fault helps. */
			page.start = addr;
			page.end = addr + PAGE_SIZE;
			page.hmm_pfns = pfn;
			page.default_flags = asked;
			ret = hmm_range_fault(&page);
			if (ret)
				return ret;
			found = -EBUSY;
			continue;
		}
		if ((*pfn & wanted) == wanted)
			continue;
		vma = vma_lookup(mm, addr);
		if (!vma)
			return -EFAULT;
		if (write && !(vma->vm_flags & VM_WRITE))
			return -EPERM;
		ret = fixup_user_fault(mm, addr, flags, &unlocked);
		if (ret)
			return ret;
		found = -EBUSY;
		cond_resched();
	}
	return found;
}

/*
 * Looks up the pages of a range, faults in what is missing if default_flags says so, and sets the
 * sequence number. EBUSY: a page was faulted in or a notifier ran; the caller repeats the lookup.
 *
 * HMM does not fault in ordinary pages here. hmm_range_fault() holds the mmap lock during a fault, so
 * it cannot fault in memory that a process provides (userfaultfd). If the read of a file fails,
 * hmm_range_fault_unlocked_timeout(), which newer kernels have, repeats it for ever.
 */
int rdma_helper_hmm_range_fault(struct hmm_range *range)
{
	const unsigned long asked = range->default_flags;
	struct mm_struct *mm = range->notifier->mm;
	int ret;

	range->default_flags = 0;
	range->notifier_seq = mmu_interval_read_begin(range->notifier);
	ret = mmap_read_lock_killable(mm);
	if (ret)
		return ret;
	ret = hmm_range_fault(range);
	if (!ret && asked & HMM_PFN_REQ_FAULT)
		ret = fault_in(range, asked);
	mmap_read_unlock(mm);
	return ret;
}

bool rdma_helper_interval_read_retry(struct mmu_interval_notifier *notifier,
				     unsigned long seq)
{
	return mmu_interval_read_retry(notifier, seq);
}

void rdma_helper_hmm_pfn_set_dirty(unsigned long pfn)
{
	set_page_dirty(compound_head(hmm_pfn_to_page(pfn)));
}
#endif

void rdma_helper_fs_reclaim_acquire(void)
{
	fs_reclaim_acquire(GFP_KERNEL);
}

void rdma_helper_fs_reclaim_release(void)
{
	fs_reclaim_release(GFP_KERNEL);
}

bool rdma_helper_uverbs_attr_is_valid(const struct uverbs_attr_bundle *bundle, u16 idx)
{
	return uverbs_attr_is_valid(bundle, idx);
}

u32 rdma_helper_uverbs_attr_bit(u16 idx)
{
	/*
	 * core/uverbs/attrs.rs has this calculation, too, for speed; check the ends of both ranges.
	 */
	BUILD_BUG_ON(uapi_bkey_attr(uapi_key_attr(0)) != 0);
	BUILD_BUG_ON(uapi_bkey_attr(uapi_key_attr(31)) != 62);
	BUILD_BUG_ON(uapi_bkey_attr(uapi_key_attr(UVERBS_API_NS_FLAG)) != 1);
	BUILD_BUG_ON(uapi_bkey_attr(uapi_key_attr(UVERBS_API_NS_FLAG | 30)) != 61);
	return uapi_bkey_attr(uapi_key_attr(idx));
}

int rdma_helper_uverbs_copy_from(void *to, const struct uverbs_attr_bundle *bundle,
				 size_t idx, size_t size)
{
	return _uverbs_copy_from(to, bundle, idx, size);
}

struct uverbs_attr_bundle *rdma_helper_udata_to_bundle(struct ib_udata *udata)
{
	return rdma_udata_to_uverbs_attr_bundle(udata);
}

void *rdma_helper_srcu_dereference(void **p, struct srcu_struct *srcu)
{
	return srcu_dereference(*(void __rcu **)p, srcu);
}

void rdma_helper_srcu_assert_held(struct srcu_struct *srcu)
{
	lockdep_assert_held(srcu);
}

void *rdma_helper_kvmalloc(size_t size, gfp_t flags)
{
	return kvmalloc(size, flags);
}

bool rdma_helper_want_init_on_alloc(gfp_t flags)
{
	return want_init_on_alloc(flags);
}

int rdma_helper_io_remap_pfn_range(struct vm_area_struct *vma, unsigned long addr,
				   unsigned long pfn, unsigned long size, pgprot_t prot)
{
	return io_remap_pfn_range(vma, addr, pfn, size, prot);
}

void rdma_helper_mmap_entry_init_mutex(struct rdma_user_mmap_entry *entry)
{
	mutex_init(&entry->dmabufs_lock);
}

struct pid *rdma_helper_get_pid(struct pid *pid)
{
	return get_pid(pid);
}

void rdma_helper_list_del(struct list_head *entry)
{
	list_del(entry);
}

bool rdma_helper_kref_get_unless_zero(struct kref *kref)
{
	return kref_get_unless_zero(kref);
}
