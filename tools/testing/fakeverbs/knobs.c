// SPDX-License-Identifier: GPL-2.0
/*
 * What a test turns and reads. debugfs has two files in fakeverbs/:
 *
 * "calls": the operations called since it was cleared, a line each:
 * NAME OBJECT-ID FOUR-NUMBERS RESULT. Any write clears it.
 *
 * "command" takes one command per write:
 *	refuse OP COUNT ERRNO	the next COUNT calls of OP fail
 *	sleep OP MS		each call of OP sleeps first (0: no more)
 *	event KIND ID TYPE	raise an event on an object, or on "port 1"
 *	complete ID COUNT	put COUNT completions into a CQ
 *	disassociate		take the pages away from all mappings
 *	unregister		from a work item, without waiting
 *	register		the device, if there is none
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include "fakeverbs.h"

#define CALLS 4096

static const char *const names[] = {
#define X(name) #name,
	FV_OPS(X)
#undef X
};

struct call {
	enum fv_op op;
	u32 id;
	u64 arg[4];
	int ret;
};

/* Protects everything below; taken in any context. */
static DEFINE_SPINLOCK(lock);
static struct call *calls;
static unsigned int n_calls;
static struct {
	unsigned int count, ms;
	int error;
} knobs[FV_OP_COUNT];
static LIST_HEAD(objects);

static atomic_t last_id = ATOMIC_INIT(0);
static struct dentry *dir;

u32 fv_new_id(void)
{
	/* Of 24 bits, as a QPN. */
	return atomic_inc_return(&last_id) & 0xffffff;
}

void fv_remember(struct fv_obj *obj, const char *kind, u32 id, void *ib)
{
	obj->kind = kind;
	obj->id = id;
	obj->ib = ib;
	spin_lock_irq(&lock);
	list_add(&obj->list, &objects);
	spin_unlock_irq(&lock);
}

void fv_forget(struct fv_obj *obj)
{
	spin_lock_irq(&lock);
	list_del(&obj->list);
	spin_unlock_irq(&lock);
}

bool fv_objects_left(void)
{
	struct fv_obj *obj;
	bool left = false;

	spin_lock_irq(&lock);
	list_for_each_entry(obj, &objects, list) {
		pr_err("fakeverbs: %s %u is left\n", obj->kind, obj->id);
		left = true;
	}
	spin_unlock_irq(&lock);
	return left;
}

static void *left(const char *kind)
{
	struct fv_obj *obj;
	void *ib = NULL;

	spin_lock_irq(&lock);
	list_for_each_entry(obj, &objects, list)
		if (!strcmp(obj->kind, kind))
			ib = obj->ib;
	spin_unlock_irq(&lock);
	return ib;
}

void fv_end_left(void)
{
	void *ib;
	int op;

	spin_lock_irq(&lock);
	for (op = 0; op < FV_OP_COUNT; op++)
		knobs[op].count = 0;
	spin_unlock_irq(&lock);
	while ((ib = left("qp")))
		if (ib_destroy_qp_user(ib, NULL))
			return;
	while ((ib = left("cq")))
		if (ib_destroy_cq_user(ib, NULL))
			return;
	while ((ib = left("pd")))
		if (ib_dealloc_pd_user(ib, NULL))
			return;
}

static int record(enum fv_op op, u32 id, u64 a, u64 b, u64 c, u64 d)
{
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&lock, flags);
	if (knobs[op].count) {
		knobs[op].count--;
		ret = -knobs[op].error;
	}
	if (n_calls < CALLS)
		calls[n_calls++] = (struct call){ op, id, { a, b, c, d }, ret };
	spin_unlock_irqrestore(&lock, flags);
	return ret;
}

int fv_call_atomic(enum fv_op op, u32 id, u64 a, u64 b)
{
	return record(op, id, a, b, 0, 0);
}

int fv_call(enum fv_op op, u32 id, struct ib_udata *udata, u64 a, u64 b,
	    u64 c, u64 d)
{
	struct fv_echo echo = {
		.id = id,
		.op = op,
		.arg = { a, b, c, d },
	};
	unsigned int ms = READ_ONCE(knobs[op].ms);
	int ret;

	if (ms)
		msleep(ms);
	ret = record(op, id, a, b, c, d);
	if (ret || !udata)
		return ret;
	echo.inlen = udata->inlen;
	echo.outlen = udata->outlen;
	ret = ib_copy_from_udata(&echo.in, udata,
				 min(sizeof(echo.in), udata->inlen));
	if (ret)
		return ret;
	return ib_copy_to_udata(udata, &echo,
				min(sizeof(echo), udata->outlen));
}

static struct fv_obj *find(const char *kind, u32 id)
{
	struct fv_obj *obj;

	list_for_each_entry(obj, &objects, list)
		if (obj->id == id && !strcmp(obj->kind, kind))
			return obj;
	return NULL;
}

/* The lock is held: the object stays until its handler has returned. */
static int event_on(struct fv_obj *obj, enum ib_event_type type)
{
	struct ib_event event = { .event = type };

	if (!strcmp(obj->kind, "cq")) {
		event.element.cq = obj->ib;
		event.device = event.element.cq->device;
		event.element.cq->event_handler(&event,
						event.element.cq->cq_context);
	} else if (!strcmp(obj->kind, "qp")) {
		event.element.qp = obj->ib;
		event.device = event.element.qp->device;
		event.element.qp->event_handler(&event,
						event.element.qp->qp_context);
	} else if (!strcmp(obj->kind, "srq")) {
		event.element.srq = obj->ib;
		event.device = event.element.srq->device;
		event.element.srq->event_handler(&event,
						 event.element.srq->srq_context);
	} else if (!strcmp(obj->kind, "wq")) {
		event.element.wq = obj->ib;
		event.device = event.element.wq->device;
		event.element.wq->event_handler(&event,
						event.element.wq->wq_context);
	} else {
		return -EOPNOTSUPP;
	}
	return 0;
}

static int raise(const char *kind, u32 id, enum ib_event_type type)
{
	struct fv_obj *obj;
	int ret = -ENOENT;

	if (!strcmp(kind, "port")) {
		fv_port_event(type);
		return 0;
	}
	spin_lock_irq(&lock);
	obj = find(kind, id);
	if (obj)
		ret = event_on(obj, type);
	spin_unlock_irq(&lock);
	return ret;
}

static int complete_on(u32 id, unsigned int count)
{
	struct ib_wc wc = { .opcode = IB_WC_SEND };
	struct fv_obj *obj;
	int ret = -ENOENT;

	spin_lock_irq(&lock);
	obj = find("cq", id);
	if (obj) {
		ret = 0;
		while (count-- && !ret) {
			wc.wr_id = count;
			ret = fv_complete(container_of(obj, struct fv_cq, obj),
					  &wc);
		}
	}
	spin_unlock_irq(&lock);
	return ret;
}

static int obey(const char *line)
{
	unsigned int a, b;
	char name[32];
	int op;

	if (sysfs_streq(line, "unregister")) {
		fv_unregister_later();
		return 0;
	}
	if (sysfs_streq(line, "register"))
		return fv_register();
	if (sysfs_streq(line, "disassociate")) {
		fv_disassociate();
		return 0;
	}
	if (sscanf(line, "event %31s %u %u", name, &a, &b) == 3)
		return raise(name, a, b);
	if (sscanf(line, "complete %u %u", &a, &b) == 2)
		return complete_on(a, b);
	if (sscanf(line, "refuse %31s %u %u", name, &a, &b) == 3) {
		op = match_string(names, FV_OP_COUNT, name);
		if (op < 0 || !b || b > MAX_ERRNO)
			return -EINVAL;
		spin_lock_irq(&lock);
		knobs[op].count = a;
		knobs[op].error = b;
		spin_unlock_irq(&lock);
		return 0;
	}
	if (sscanf(line, "sleep %31s %u", name, &a) == 2) {
		op = match_string(names, FV_OP_COUNT, name);
		if (op < 0)
			return -EINVAL;
		WRITE_ONCE(knobs[op].ms, a);
		return 0;
	}
	return -EINVAL;
}

static ssize_t command_write(struct file *file, const char __user *from,
			     size_t count, loff_t *pos)
{
	char *line;
	int ret;

	if (count > 128)
		return -EINVAL;
	line = memdup_user_nul(from, count);
	if (IS_ERR(line))
		return PTR_ERR(line);
	ret = obey(line);
	kfree(line);
	return ret ?: count;
}

static const struct file_operations command_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = command_write,
};

static int calls_show(struct seq_file *seq, void *unused)
{
	struct call *call;
	unsigned int i;

	spin_lock_irq(&lock);
	for (i = 0; i < n_calls; i++) {
		call = &calls[i];
		seq_printf(seq, "%s %u %llu %llu %llu %llu %d\n",
			   names[call->op], call->id, call->arg[0],
			   call->arg[1], call->arg[2], call->arg[3], call->ret);
	}
	spin_unlock_irq(&lock);
	return 0;
}

static int calls_open(struct inode *inode, struct file *file)
{
	return single_open(file, calls_show, NULL);
}

static ssize_t calls_write(struct file *file, const char __user *from,
			   size_t count, loff_t *pos)
{
	spin_lock_irq(&lock);
	n_calls = 0;
	spin_unlock_irq(&lock);
	return count;
}

static const struct file_operations calls_fops = {
	.owner = THIS_MODULE,
	.open = calls_open,
	.read = seq_read,
	.write = calls_write,
	.llseek = seq_lseek,
	.release = single_release,
};

int fv_knobs_init(void)
{
	BUILD_BUG_ON(ARRAY_SIZE(names) != FV_OP_COUNT);
	calls = kvcalloc(CALLS, sizeof(*calls), GFP_KERNEL);
	if (!calls)
		return -ENOMEM;
	dir = debugfs_create_dir("fakeverbs", NULL);
	debugfs_create_file("command", 0200, dir, NULL, &command_fops);
	debugfs_create_file("calls", 0600, dir, NULL, &calls_fops);
	return 0;
}

void fv_knobs_exit(void)
{
	debugfs_remove(dir);
	kvfree(calls);
}
