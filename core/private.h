/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads for ib_core alone: the headers that the core's modules share. The
 * allow list in core/Kbuild decides what it emits.
 */
#include "core_priv.h"
#include "restrack.h"
#include <rdma/rdma_cm.h>
#include "cma_priv.h"
#include "uverbs.h"
#include "rdma_core.h"
#include "../mad/trace.h"
#include <linux/hmm.h>
#include <linux/hmm-dma.h>
#include <linux/dim.h>
#include <linux/irq_poll.h>
#include <linux/security.h>
