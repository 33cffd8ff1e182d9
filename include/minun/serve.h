// SPDX-License-Identifier: Apache-2.0
// A firmware that serves its models over the board's serial port in five lines:
//
//   static uint8_t arena[digits::kArenaBytes];
//   static const minun::Model models[] MINUN_FLASH = {MINUN_MODEL(digits)};
//   static minun::BoardLink<digits::kInputBytes, digits::kOutputBytes> board(models, 1, arena, sizeof arena);
//   void setup() { minun::BoardPort::begin(); board.begin(); }
//   void loop() { board.poll(); }
#ifndef MINUN_SERVE_H
#define MINUN_SERVE_H

#include "minun/link.h"
#include "minun/timer.h"

#if defined(ARDUINO)
#include <Arduino.h>
#elif defined(MINUN_VIRTUAL_ARM) || defined(MINUN_NATIVE)
#include <minun_board.h>
#else
#error "minun/serve.h knows no serial port here: write a Port (minun/link.h) and use minun::Link itself"
#endif

namespace minun {

const unsigned long kBaud = 115200;

#if defined(ARDUINO)
// The port through Arduino's Serial, for a firmware that prints as well (a host skips what is not a frame).
struct ArduinoPort {
  enum { kPatience = 400 };
  static void begin() { Serial.begin(kBaud); }
  static int read() { return Serial.read(); }
  static void write(uint8_t byte) { Serial.write(byte); }
};
#endif

#if defined(__AVR__) && defined(UDR0) && defined(UBRR0) && defined(U2X0) && defined(UCSZ01)
// The UART itself, without interrupts and buffers: Serial would cost 1 KB of flash and 175 B of RAM more.
struct BoardPort {
  enum { kPatience = 800 };  // about five bytes' time
  static void begin() {
    UCSR0A = _BV(U2X0);
    UBRR0 = (F_CPU / 4 / kBaud - 1) / 2;
    UCSR0C = _BV(UCSZ01) | _BV(UCSZ00);
    UCSR0B = _BV(RXEN0) | _BV(TXEN0);
  }
  static int read() { return UCSR0A & _BV(RXC0) ? UDR0 : -1; }
  static void write(uint8_t byte) {
    while (!(UCSR0A & _BV(UDRE0))) {
    }
    UDR0 = byte;
  }
};
#elif defined(ARDUINO)
typedef ArduinoPort BoardPort;
#else
struct BoardPort {
  enum { kPatience = 1 };
  static void begin() { minun_board::serial_begin(); }
  static int read() { return minun_board::serial_read(); }
  static void write(uint8_t byte) { minun_board::serial_write(byte); }
};
#endif

template <size_t kInputBytes, size_t kOutputBytes>
class BoardLink : public Link<BoardPort, BoardClock, kInputBytes, kOutputBytes> {
 public:
  BoardLink(const Model* model_list, uint8_t model_count, uint8_t* arena_memory, size_t arena_bytes)
      : Link<BoardPort, BoardClock, kInputBytes, kOutputBytes>(model_list, model_count, arena_memory, arena_bytes) {}
};

}  // namespace minun

#endif
