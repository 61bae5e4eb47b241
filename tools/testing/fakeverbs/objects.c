// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts, and the objects without queues: PDs, address handles, memory, XRC domains.
 * An object is a number; no memory is pinned.
 */
#include <linux/dma-buf.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/pci-p2pdma.h>
#include <linux/slab.h>
#include "fakeverbs.h"

struct fv_mmap_entry {
	struct rdma_user_mmap_entry rdma;
	unsigned long page;
};

struct fv_ah {
	struct ib_ah ib;
	struct fv_obj obj;
	struct rdma_ah_attr attr;
};

struct fv_mw {
	struct ib_mw ib;
	struct fv_obj obj;
};

struct fv_xrcd {
	struct ib_xrcd ib;
	struct fv_obj obj;
};

struct fv_dm {
	struct ib_dm ib;
	struct fv_obj obj;
};

struct fv_dmah {
	struct ib_dmah ib;
	struct fv_obj obj;
};

/* Contexts, each with a page to map. */

static u32 ucontext_id(struct ib_ucontext *context)
{
	return container_of(context, struct fv_ucontext, ib)->obj.id;
}

static int alloc_ucontext(struct ib_ucontext *ib, struct ib_udata *udata)
{
	struct fv_ucontext *context = container_of(ib, struct fv_ucontext, ib);
	struct fv_mmap_entry *entry;
	u32 id = fv_new_id();
	int ret;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return -ENOMEM;
	entry->page = get_zeroed_page(GFP_KERNEL);
	if (!entry->page) {
		kfree(entry);
		return -ENOMEM;
	}
	snprintf((char *)entry->page, PAGE_SIZE, "context %u", id);
	/* Page 0 is left free, so that a forgotten offset is refused. */
	ret = rdma_user_mmap_entry_insert_range(ib, &entry->rdma, PAGE_SIZE, 1,
						U32_MAX);
	if (ret) {
		free_page(entry->page);
		kfree(entry);
		return ret;
	}
	context->entry = &entry->rdma;
	ret = fv_call(FV_alloc_ucontext, id, udata,
		      rdma_user_mmap_get_offset(&entry->rdma),
		      ib->enabled_caps, 0, 0);
	if (ret) {
		rdma_user_mmap_entry_remove(&entry->rdma);
		return ret;
	}
	fv_remember(&context->obj, "context", id, ib);
	return 0;
}

static void dealloc_ucontext(struct ib_ucontext *ib)
{
	struct fv_ucontext *context = container_of(ib, struct fv_ucontext, ib);

	fv_call(FV_dealloc_ucontext, context->obj.id, NULL, 0, 0, 0, 0);
	rdma_user_mmap_entry_remove(context->entry);
	fv_forget(&context->obj);
}

static void disassociate_ucontext(struct ib_ucontext *ib)
{
	fv_call(FV_disassociate_ucontext, ucontext_id(ib), NULL, 0, 0, 0, 0);
}

static int fv_mmap(struct ib_ucontext *ib, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma;
	struct fv_mmap_entry *entry;
	int ret;

	ret = fv_call(FV_mmap, ucontext_id(ib), NULL, vma->vm_pgoff,
		      vma->vm_end - vma->vm_start, 0, 0);
	if (ret)
		return ret;
	rdma = rdma_user_mmap_entry_get(ib, vma);
	if (!rdma)
		return -EINVAL;
	entry = container_of(rdma, struct fv_mmap_entry, rdma);
	ret = rdma_user_mmap_io(ib, vma, PHYS_PFN(virt_to_phys((void *)entry->page)),
				PAGE_SIZE, vma->vm_page_prot, rdma);
	rdma_user_mmap_entry_put(rdma);
	return ret;
}

static void mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct fv_mmap_entry *entry =
		container_of(rdma, struct fv_mmap_entry, rdma);

	fv_call(FV_mmap_free, 0, NULL, rdma->start_pgoff, 0, 0, 0);
	free_page(entry->page);
	kfree(entry);
}

/*
 * The page belongs to no PCI device: a file can be made of it, but nobody can map it for
 * DMA, for which a missing provider is refused.
 */
static int mmap_get_pfns(struct rdma_user_mmap_entry *rdma,
			 struct phys_vec *vec, struct p2pdma_provider **provider)
{
	struct fv_mmap_entry *entry =
		container_of(rdma, struct fv_mmap_entry, rdma);

	vec->paddr = virt_to_phys((void *)entry->page);
	vec->len = PAGE_SIZE;
	*provider = NULL;
	return fv_call(FV_mmap_get_pfns, 0, NULL, rdma->start_pgoff, 0, 0, 0);
}

static struct rdma_user_mmap_entry *pgoff_to_mmap_entry(struct ib_ucontext *ib,
							off_t pgoff)
{
	return rdma_user_mmap_entry_get_pgoff(ib, pgoff);
}

/* Protection domains, XRC domains */

static int alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct fv_pd *pd = container_of(ib, struct fv_pd, ib);
	u32 id = fv_new_id();
	int ret = fv_call(FV_alloc_pd, id, udata, 0, 0, 0, 0);

	if (!ret)
		fv_remember(&pd->obj, "pd", id, ib);
	return ret;
}

static int dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	struct fv_pd *pd = container_of(ib, struct fv_pd, ib);
	int ret = fv_call(FV_dealloc_pd, pd->obj.id, NULL, 0, 0, 0, 0);

	if (!ret)
		fv_forget(&pd->obj);
	return ret;
}

static int alloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata)
{
	struct fv_xrcd *xrcd = container_of(ib, struct fv_xrcd, ib);
	u32 id = fv_new_id();
	int ret = fv_call(FV_alloc_xrcd, id, udata, 0, 0, 0, 0);

	if (!ret)
		fv_remember(&xrcd->obj, "xrcd", id, ib);
	return ret;
}

static int dealloc_xrcd(struct ib_xrcd *ib, struct ib_udata *udata)
{
	struct fv_xrcd *xrcd = container_of(ib, struct fv_xrcd, ib);
	int ret = fv_call(FV_dealloc_xrcd, xrcd->obj.id, NULL, 0, 0, 0, 0);

	if (!ret)
		fv_forget(&xrcd->obj);
	return ret;
}

/* Address handles */

static int make_ah(enum fv_op op, struct ib_ah *ib,
		   struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	struct fv_ah *ah = container_of(ib, struct fv_ah, ib);
	u32 id = fv_new_id();
	int ret;

	ret = fv_call(op, id, udata, fv_pd_id(ib->pd),
		      rdma_ah_get_dlid(init->ah_attr),
		      rdma_ah_get_sl(init->ah_attr),
		      rdma_ah_get_ah_flags(init->ah_attr));
	if (ret)
		return ret;
	ah->attr = *init->ah_attr;
	fv_remember(&ah->obj, "ah", id, ib);
	return 0;
}

static int create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init,
		     struct ib_udata *udata)
{
	return make_ah(FV_create_ah, ib, init, udata);
}

static int create_user_ah(struct ib_ah *ib, struct rdma_ah_init_attr *init,
			  struct ib_udata *udata)
{
	return make_ah(FV_create_user_ah, ib, init, udata);
}

static int modify_ah(struct ib_ah *ib, struct rdma_ah_attr *attr)
{
	struct fv_ah *ah = container_of(ib, struct fv_ah, ib);
	int ret = fv_call(FV_modify_ah, ah->obj.id, NULL, 0, 0, 0, 0);

	if (!ret)
		ah->attr = *attr;
	return ret;
}

static int query_ah(struct ib_ah *ib, struct rdma_ah_attr *attr)
{
	struct fv_ah *ah = container_of(ib, struct fv_ah, ib);

	*attr = ah->attr;
	return fv_call(FV_query_ah, ah->obj.id, NULL, 0, 0, 0, 0);
}

static int destroy_ah(struct ib_ah *ib, u32 flags)
{
	struct fv_ah *ah = container_of(ib, struct fv_ah, ib);
	int ret = fv_call(FV_destroy_ah, ah->obj.id, NULL, flags, 0, 0, 0);

	if (!ret)
		fv_forget(&ah->obj);
	return ret;
}

/* Memory regions and windows */

static struct ib_mr *new_mr(enum fv_op op, struct ib_udata *udata,
			    struct dma_buf *dmabuf, u64 start, u64 length,
			    u64 iova, u64 access)
{
	struct fv_mr *mr;
	u32 id = fv_new_id();
	int ret;

	if (!length || iova + length < iova || start + length < start)
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	ret = fv_call(op, id, udata, start, length, iova, access);
	if (ret) {
		kfree(mr);
		return ERR_PTR(ret);
	}
	mr->ib.lkey = id;
	mr->ib.rkey = id;
	mr->ib.iova = iova;
	mr->ib.length = length;
	mr->dmabuf = dmabuf;
	fv_remember(&mr->obj, "mr", id, &mr->ib);
	return &mr->ib;
}

static struct ib_mr *reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
				 u64 iova, int access, struct ib_dmah *dmah,
				 struct ib_udata *udata)
{
	/* A TLP handle is told in the upper half of the access flags. */
	u64 hints = dmah ? container_of(dmah, struct fv_dmah, ib)->obj.id : 0;

	return new_mr(FV_reg_user_mr, udata, NULL, start, length, iova,
		      (u32)access | hints << 32);
}

static struct ib_mr *reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset,
					u64 length, u64 iova, int fd,
					int access, struct ib_dmah *dmah,
					struct uverbs_attr_bundle *attrs)
{
	u64 hints = dmah ? container_of(dmah, struct fv_dmah, ib)->obj.id : 0;
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct ib_mr *mr;

	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	if (offset > dmabuf->size || length > dmabuf->size - offset)
		mr = ERR_PTR(-EINVAL);
	else
		mr = new_mr(FV_reg_user_mr_dmabuf, NULL, dmabuf, offset, length,
			    iova, (u32)access | hints << 32);
	if (IS_ERR(mr))
		dma_buf_put(dmabuf);
	return mr;
}

/* New addresses make a new region, all else is changed in place. */
static struct ib_mr *rereg_user_mr(struct ib_mr *ib, int flags, u64 start,
				   u64 length, u64 iova, int access,
				   struct ib_pd *pd, struct ib_udata *udata)
{
	struct fv_mr *mr = container_of(ib, struct fv_mr, ib);
	int ret;

	if (flags & IB_MR_REREG_TRANS)
		return new_mr(FV_rereg_user_mr, udata, NULL, start, length,
			      iova, access);
	ret = fv_call(FV_rereg_user_mr, mr->obj.id, udata, flags, access,
		      fv_pd_id(pd), 0);
	return ERR_PTR(ret);
}

static int dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct fv_mr *mr = container_of(ib, struct fv_mr, ib);
	int ret = fv_call(FV_dereg_mr, mr->obj.id, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	if (mr->dmabuf)
		dma_buf_put(mr->dmabuf);
	fv_forget(&mr->obj);
	kfree(mr);
	return 0;
}

static int advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice,
		     u32 flags, struct ib_sge *sges, u32 count,
		     struct uverbs_attr_bundle *attrs)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < count; i++)
		bytes += sges[i].length;
	return fv_call(FV_advise_mr, fv_pd_id(pd), NULL, advice, flags, count,
		       bytes);
}

static int alloc_mw(struct ib_mw *ib, struct ib_udata *udata)
{
	struct fv_mw *mw = container_of(ib, struct fv_mw, ib);
	u32 id = fv_new_id();
	int ret;

	if (ib->type != IB_MW_TYPE_1 && ib->type != IB_MW_TYPE_2)
		return -EINVAL;
	ret = fv_call(FV_alloc_mw, id, udata, ib->type, fv_pd_id(ib->pd), 0, 0);
	if (ret)
		return ret;
	ib->rkey = id;
	fv_remember(&mw->obj, "mw", id, ib);
	return 0;
}

static int dealloc_mw(struct ib_mw *ib)
{
	struct fv_mw *mw = container_of(ib, struct fv_mw, ib);
	int ret = fv_call(FV_dealloc_mw, mw->obj.id, NULL, 0, 0, 0, 0);

	if (!ret)
		fv_forget(&mw->obj);
	return ret;
}

/* Device memory, hints for DMA */

static struct ib_dm *alloc_dm(struct ib_device *ib, struct ib_ucontext *context,
			      struct ib_dm_alloc_attr *attr,
			      struct uverbs_attr_bundle *attrs)
{
	u32 id = fv_new_id();
	struct fv_dm *dm;
	int ret;

	if (!attr->length || attr->length > FV_MAX_DM || attr->alignment > 12)
		return ERR_PTR(-EINVAL);
	dm = kzalloc(sizeof(*dm), GFP_KERNEL);
	if (!dm)
		return ERR_PTR(-ENOMEM);
	ret = fv_call(FV_alloc_dm, id, NULL, attr->length, attr->alignment,
		      attr->flags, ucontext_id(context));
	if (!ret)
		ret = fv_added_attrs(attrs, FV_ATTR_DM_IN, FV_ATTR_DM_OUT, id);
	if (ret) {
		kfree(dm);
		return ERR_PTR(ret);
	}
	fv_remember(&dm->obj, "dm", id, &dm->ib);
	return &dm->ib;
}

static int dealloc_dm(struct ib_dm *ib, struct uverbs_attr_bundle *attrs)
{
	struct fv_dm *dm = container_of(ib, struct fv_dm, ib);
	int ret = fv_call(FV_dealloc_dm, dm->obj.id, NULL, 0, 0, 0, 0);

	if (ret)
		return ret;
	fv_forget(&dm->obj);
	kfree(dm);
	return 0;
}

static struct ib_mr *reg_dm_mr(struct ib_pd *pd, struct ib_dm *ib,
			       struct ib_dm_mr_attr *attr,
			       struct uverbs_attr_bundle *attrs)
{
	struct fv_dm *dm = container_of(ib, struct fv_dm, ib);

	return new_mr(FV_reg_dm_mr, NULL, NULL, attr->offset, attr->length, 0,
		      attr->access_flags | (u64)dm->obj.id << 32);
}

static int alloc_dmah(struct ib_dmah *ib, struct uverbs_attr_bundle *attrs)
{
	struct fv_dmah *dmah = container_of(ib, struct fv_dmah, ib);
	u32 id = fv_new_id();
	int ret = fv_call(FV_alloc_dmah, id, NULL, ib->valid_fields, ib->cpu_id,
			  ib->mem_type, ib->ph);

	if (!ret)
		fv_remember(&dmah->obj, "dmah", id, ib);
	return ret;
}

static int dealloc_dmah(struct ib_dmah *ib, struct uverbs_attr_bundle *attrs)
{
	struct fv_dmah *dmah = container_of(ib, struct fv_dmah, ib);
	int ret = fv_call(FV_dealloc_dmah, dmah->obj.id, NULL, 0, 0, 0, 0);

	if (!ret)
		fv_forget(&dmah->obj);
	return ret;
}

/*
 * Before objects are destroyed: marks each as taken and gives it back, as mlx5 does for
 * those that it destroys in advance.
 */
static void ufile_hw_cleanup(struct ib_uverbs_file *ufile)
{
	struct ib_uobject *uobject;
	u64 count = 0;

	list_for_each_entry(uobject, &ufile->uobjects, list) {
		WARN_ON(uverbs_try_lock_object(uobject, UVERBS_LOOKUP_WRITE));
		atomic_set(&uobject->usecnt, 0);
		count++;
	}
	fv_call(FV_ufile_hw_cleanup, ucontext_id(ufile->ucontext), NULL, count,
		0, 0, 0);
}

const struct ib_device_ops fv_object_ops = {
	.advise_mr = advise_mr,
	.alloc_dm = alloc_dm,
	.alloc_dmah = alloc_dmah,
	.alloc_mw = alloc_mw,
	.alloc_pd = alloc_pd,
	.alloc_ucontext = alloc_ucontext,
	.alloc_xrcd = alloc_xrcd,
	.create_ah = create_ah,
	.create_user_ah = create_user_ah,
	.dealloc_dm = dealloc_dm,
	.dealloc_dmah = dealloc_dmah,
	.dealloc_mw = dealloc_mw,
	.dealloc_pd = dealloc_pd,
	.dealloc_ucontext = dealloc_ucontext,
	.dealloc_xrcd = dealloc_xrcd,
	.dereg_mr = dereg_mr,
	.destroy_ah = destroy_ah,
	.disassociate_ucontext = disassociate_ucontext,
	.mmap = fv_mmap,
	.mmap_free = mmap_free,
	.mmap_get_pfns = mmap_get_pfns,
	.modify_ah = modify_ah,
	.pgoff_to_mmap_entry = pgoff_to_mmap_entry,
	.query_ah = query_ah,
	.query_ucontext = fv_query_ucontext,
	.reg_dm_mr = reg_dm_mr,
	.reg_user_mr = reg_user_mr,
	.reg_user_mr_dmabuf = reg_user_mr_dmabuf,
	.rereg_user_mr = rereg_user_mr,
	.ufile_hw_cleanup = ufile_hw_cleanup,

	INIT_RDMA_OBJ_SIZE(ib_ah, fv_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_dmah, fv_dmah, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, fv_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, fv_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, fv_ucontext, ib),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, fv_xrcd, ib),
};
