/* SPDX-License-Identifier: Apache-2.0
 * avr_bare: runs an AVR program to its end and counts true cycles between marks (virtual/bare/bare_avr.cpp).
 *   avr_bare -m mcu -c max_cycles -i input -o output -k marks program.elf
 * A write to GPIOR0 begins a mark, to GPIOR1 ends it: one line "id cycles stack_bytes" in the marks file. GPIOR2 is the
 * byte stream. GPIOR0 = 251 asks whether input is left (answer in GPIOR1). The program ends by sleeping with interrupts
 * off; avr_bare's exit status is its r24. 124: crashed or out of cycles. Build: cc -O2 avr_bare.c -lsimavr -lelf */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_io.h>

enum { kGpior0 = 0x3E,
       kGpior1 = 0x4A,
       kGpior2 = 0x4B,
       kSpLow = 0x5D,
       kSpHigh = 0x5E,
       kAskInput = 251 };

static FILE *input, *output, *marks;
static avr_cycle_count_t begun;
static unsigned sp_at_begin, sp_lowest;

static unsigned stack_pointer(const avr_t* avr) { return avr->data[kSpLow] | (unsigned)avr->data[kSpHigh] << 8; }

static void on_begin(avr_t* avr, avr_io_addr_t addr, uint8_t value, void* param) {
  (void)param;
  avr->data[addr] = value;
  if (value == kAskInput) {
    int c = input ? getc(input) : EOF;
    if (c != EOF) ungetc(c, input);
    avr->data[kGpior1] = c != EOF;
    return;
  }
  sp_at_begin = sp_lowest = stack_pointer(avr) + 2; /* the caller's: less begin()'s return address */
  begun = avr->cycle;
}

static void on_end(avr_t* avr, avr_io_addr_t addr, uint8_t value, void* param) {
  (void)param;
  avr->data[addr] = value;
  fprintf(marks, "%u %llu %u\n", value, (unsigned long long)(avr->cycle - begun), sp_at_begin - sp_lowest);
}

static void on_output(avr_t* avr, avr_io_addr_t addr, uint8_t value, void* param) {
  (void)param;
  avr->data[addr] = value;
  putc(value, output);
}

static uint8_t on_input(avr_t* avr, avr_io_addr_t addr, void* param) {
  (void)avr, (void)addr, (void)param;
  int c = input ? getc(input) : EOF;
  return c == EOF ? 0 : (uint8_t)c;
}

static FILE* open_or_die(const char* path, const char* mode) {
  FILE* file = fopen(path, mode);
  if (!file) {
    fprintf(stderr, "avr_bare: cannot open %s\n", path);
    exit(125);
  }
  return file;
}

int main(int argc, char** argv) {
  const char* mcu = "atmega328p";
  unsigned long long max_cycles = 1000000000ull;
  int option;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  while ((option = getopt(argc, argv, "m:c:i:o:k:")) != -1) switch (option) {
      case 'm':
        mcu = optarg;
        break;
      case 'c':
        max_cycles = strtoull(optarg, NULL, 10);
        break;
      case 'i':
        input = open_or_die(optarg, "rb");
        break;
      case 'o':
        output = open_or_die(optarg, "wb");
        break;
      case 'k':
        marks = open_or_die(optarg, "w");
        break;
      default:
        return 125;
    }
  elf_firmware_t firmware;
  memset(&firmware, 0, sizeof firmware);
  if (optind >= argc || !output || !marks || elf_read_firmware(argv[optind], &firmware)) {
    fprintf(stderr, "avr_bare: cannot read the program\n");
    return 125;
  }
  avr_t* avr = avr_make_mcu_by_name(mcu);
  if (!avr) {
    fprintf(stderr, "avr_bare: simavr does not know the chip %s\n", mcu);
    return 125;
  }
  avr_init(avr);
  avr->log = LOG_NONE;
  firmware.frequency = 16000000;
  avr_load_firmware(avr, &firmware);
  avr_register_io_write(avr, kGpior0, on_begin, NULL);
  avr_register_io_write(avr, kGpior1, on_end, NULL);
  avr_register_io_write(avr, kGpior2, on_output, NULL);
  avr_register_io_read(avr, kGpior2, on_input, NULL);
  int state = cpu_Running;
  while (state != cpu_Done && state != cpu_Crashed && avr->cycle < max_cycles) {
    state = avr_run(avr);
    unsigned sp = stack_pointer(avr);
    if (sp < sp_lowest) sp_lowest = sp;
  }
  if (fclose(output) || fclose(marks)) return 125;
  if (state == cpu_Done) return avr->data[24];
  if (state == cpu_Crashed)
    fprintf(stderr, "avr_bare: crashed at pc 0x%x, sp 0x%x\n", avr->pc, stack_pointer(avr));
  else
    fprintf(stderr, "avr_bare: no end after %llu cycles\n", max_cycles);
  return 124;
}
