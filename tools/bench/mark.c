// SPDX-License-Identifier: GPL-2.0
/*
 * mark begin|end: tells the emulator's plugin (profile/plugin.c), if there is one, to
 * count from zero on, or to write down what it has counted. The instruction that it looks
 * for does nothing: a long no-op whose unused address says which of both.
 */
int main(int argc, char **argv)
{
	if (argc > 1 && argv[1][0] == 'b')
		__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x01, 0x52, 0x58, 0x45");
	else
		__asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00, 0x02, 0x52, 0x58, 0x45");
	return 0;
}
