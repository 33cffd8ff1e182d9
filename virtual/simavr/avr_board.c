/* SPDX-License-Identifier: Apache-2.0
 * avr_board: an AVR board on libsimavr whose UART0 is standard input and output (a pty, given by the host side).
 *   avr_board [-m mcu] [-f hz] [-b baud] [-t idle_seconds] firmware.elf
 * Bytes come in no faster than the line rate of simulated time. SIGUSR1 presses reset. A write to GPIOR0 (a register
 * that does nothing on a chip) reports the true cycle count on standard error. Runs as fast as it can; after 3 s
 * without traffic at the chip's own speed, and with -t ends after that many.
 * Build: cc -O2 avr_board.c -lsimavr -lelf */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>
#include <simavr/sim_io.h>

enum { kGpior0 = 0x3E,
       kUcsr0a = 0xC0,
       kUdre0 = 0x20,
       kUcsr0b = 0xC1,
       kTxen0 = 0x08,
       kCheckEvery = 8192 };
static const double kBusySeconds = 3.0;

static volatile sig_atomic_t quit, reset;
static int may_receive = 1;
static unsigned long traffic;
static avr_irq_t* uart_input;
static avr_cycle_count_t cycles_per_byte;

static void on_quit(int number) { (void)number, quit = 1; }
static void on_reset(int number) { (void)number, reset = 1; }

static void on_output(struct avr_irq_t* irq, uint32_t value, void* param) {
  (void)irq, (void)param;
  uint8_t byte = (uint8_t)value;
  traffic++;
  while (write(1, &byte, 1) < 0) {
    if (errno != EINTR) return; /* nobody reads: the byte is lost, as on a wire */
  }
}
static void on_xon(struct avr_irq_t* irq, uint32_t value, void* param) {
  (void)irq, (void)value, (void)param, may_receive = 1;
}
static void on_xoff(struct avr_irq_t* irq, uint32_t value, void* param) {
  (void)irq, (void)value, (void)param, may_receive = 0;
}

static avr_cycle_count_t poll_input(avr_t* avr, avr_cycle_count_t when, void* param) {
  (void)avr, (void)param;
  uint8_t byte;
  if (may_receive && read(0, &byte, 1) == 1) {
    traffic++;
    avr_raise_irq(uart_input, byte);
  }
  return when + cycles_per_byte;
}

static void on_mark(avr_t* avr, avr_io_addr_t addr, uint8_t value, void* param) {
  (void)param;
  avr->data[addr] = value;
  fprintf(stderr, "mark %u %llu\n", value, (unsigned long long)avr->cycle);
}

/* A transmitter that is switched on is empty; simavr 1.6 says so only after the first byte. */
static void on_uart_control(avr_t* avr, avr_io_addr_t addr, uint8_t value, void* param) {
  (void)addr, (void)param;
  static int was_on;
  int on = (value & kTxen0) != 0;
  if (on && !was_on) avr->data[kUcsr0a] |= kUdre0;
  was_on = on;
}

static void no_sleep(avr_t* avr, avr_cycle_count_t how_long) { (void)avr, (void)how_long; }

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void connect_uart(avr_t* avr) {
  uint32_t flags = 0;
  avr_ioctl(avr, AVR_IOCTL_UART_GET_FLAGS('0'), &flags);
  flags &= ~(uint32_t)(AVR_UART_FLAG_STDIO | AVR_UART_FLAG_POLL_SLEEP);
  avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
}

int main(int argc, char** argv) {
  const char* mcu = "atmega328p";
  long hz = 16000000, baud = 115200;
  double idle_limit = 0;
  int option;
  while ((option = getopt(argc, argv, "m:f:b:t:")) != -1) switch (option) {
      case 'm':
        mcu = optarg;
        break;
      case 'f':
        hz = atol(optarg);
        break;
      case 'b':
        baud = atol(optarg);
        break;
      case 't':
        idle_limit = atof(optarg);
        break;
      default:
        return 2;
    }
  elf_firmware_t firmware;
  memset(&firmware, 0, sizeof firmware);
  int out = dup(1); /* simavr's loader talks on standard output; the port is not for that */
  if (dup2(2, 1) < 0 || out < 0) return 2;
  if (optind >= argc || elf_read_firmware(argv[optind], &firmware)) {
    fprintf(stderr, "avr_board: cannot read the firmware\n");
    return 2;
  }
  avr_t* avr = avr_make_mcu_by_name(mcu);
  if (!avr) {
    fprintf(stderr, "avr_board: simavr does not know the chip %s\n", mcu);
    return 2;
  }
  avr_init(avr);
  avr->log = LOG_NONE;
  firmware.frequency = (uint32_t)hz;
  avr_load_firmware(avr, &firmware);
  if (dup2(out, 1) < 0) return 2;
  close(out);
  avr->frequency = (uint32_t)hz;
  avr->sleep = no_sleep;
  connect_uart(avr);
  avr_register_io_write(avr, kGpior0, on_mark, NULL);
  avr_register_io_write(avr, kUcsr0b, on_uart_control, NULL);
  fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
  uart_input = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
  avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), on_output, NULL);
  avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUT_XON), on_xon, NULL);
  avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUT_XOFF), on_xoff, NULL);
  cycles_per_byte = (avr_cycle_count_t)(hz * 10 / baud);
  avr_cycle_timer_register(avr, cycles_per_byte, poll_input, NULL);
  signal(SIGTERM, on_quit);
  signal(SIGINT, on_quit);
  signal(SIGHUP, SIG_IGN);
  signal(SIGUSR1, on_reset);

  fprintf(stderr, "avr_board: running\n"); /* the host side waits for this line */

  int state = cpu_Running;
  unsigned steps = 0;
  unsigned long seen = 0;
  double last_traffic = now(), pace_from = 0;
  avr_cycle_count_t pace_cycle = 0;
  while (!quit && state != cpu_Done && state != cpu_Crashed) {
    if (reset) {
      reset = 0;
      avr_reset(avr);
      avr->frequency = (uint32_t)hz;
      may_receive = 1;
      connect_uart(avr);
      avr_cycle_timer_cancel(avr, poll_input, NULL);
      avr_cycle_timer_register(avr, cycles_per_byte, poll_input, NULL);
    }
    state = avr_run(avr);
    if (++steps % kCheckEvery) continue;
    double t = now();
    if (traffic != seen) {
      seen = traffic;
      last_traffic = t;
      pace_from = 0;
    } else if (t - last_traffic > kBusySeconds) {
      if (idle_limit > 0 && t - last_traffic > idle_limit) break;
      if (pace_from == 0) pace_from = t, pace_cycle = avr->cycle;
      double ahead = (double)(avr->cycle - pace_cycle) / (double)hz - (t - pace_from);
      if (ahead > 0.001) usleep((useconds_t)(ahead * 1e6));
    }
  }
  if (state == cpu_Crashed) fprintf(stderr, "avr_board: crashed at pc 0x%x\n", avr->pc);
  return state == cpu_Crashed ? 3 : 0;
}
