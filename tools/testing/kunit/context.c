// SPDX-License-Identifier: GPL-2.0
/* Questions about the context that runs, for the suites. */
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/types.h>

bool rdma_kunit_irqs_off(void);
bool rdma_kunit_bh_off(void);
bool rdma_kunit_in_softirq(void);

bool rdma_kunit_irqs_off(void)
{
	return irqs_disabled();
}

bool rdma_kunit_bh_off(void)
{
	return in_softirq();
}

bool rdma_kunit_in_softirq(void)
{
	return in_serving_softirq();
}
