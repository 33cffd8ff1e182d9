// SPDX-License-Identifier: Apache-2.0
// The board's side of the serial protocol (docs/boards.md): a host sends inputs, the board answers with outputs,
// latency and memory marks. It trusts no byte: a frame counts only when its length and CRC-32 are right, and nothing
// is written outside this object. No heap, no time-outs needed: a delimiter starts the next frame whatever came before.
#ifndef MINUN_LINK_H
#define MINUN_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "minun/flash.h"
#include "minun/stack.h"

namespace minun {

// A model as the link calls it; `infer` returns 0 when all went well. Declare tables of these MINUN_FLASH.
struct Model {
  char name[41];
  uint32_t hash;  // of the build, so that a host can tell an old firmware
  uint32_t arena_bytes, input_bytes, output_bytes;
  uint8_t (*infer)(const void* input, void* output, uint8_t* arena, size_t arena_bytes);
};

// Wraps a generated `Status infer(const InputCode*, OutputCode*, uint8_t*, size_t)`.
template <class Input, class Output, class Status, Status (*kInfer)(const Input*, Output*, uint8_t*, size_t)>
uint8_t run_model(const void* input, void* output, uint8_t* arena, size_t arena_bytes) {
  return static_cast<uint8_t>(
      kInfer(static_cast<const Input*>(input), static_cast<Output*>(output), arena, arena_bytes));
}

// The table entry of the generated model in namespace `model`.
// clang-format off
#define MINUN_MODEL(model)                                                                 \
  {#model, model::kBuildHash, model::kArenaBytes, model::kInputBytes, model::kOutputBytes, \
   &minun::run_model<model::InputCode, model::OutputCode, model::Status, &model::infer>}
// clang-format on

namespace link_protocol {
enum { kVersion = 1 };
enum Framing { kDelimiter = 0x7E,
               kEscape = 0x7D,
               kEscapeBit = 0x20 };
enum Message {
  kHello = 0x01,
  kDescribe = 0x02,
  kRun = 0x03,
  kReply = 0x80,  // added to the request's
  kError = 0xFF,
};
enum Refusal {
  kUnknownRequest = 1,
  kWrongLength = 2,
  kWrongSession = 3,
  kNoSuchModel = 4,
  kDoesNotFit = 5,
};
enum Size {
  kHeaderBytes = 7,
  kCrcBytes = 4,
  kHeadBytes = kHeaderBytes + 5,  // header, session, model
};
const uint32_t kGoodCrc = 0xDEBB20E3u;  // what the CRC register holds after data and its own CRC
}  // namespace link_protocol

// Port: static int read() (-1: nothing there), static void write(uint8_t), enum kPatience: how many empty reads within
// a frame are waited for before poll() returns.
// Clock (minun/timer.h): static void start(), static uint32_t stop(), enum kKind, kScaleNumerator, kScaleDenominator.
// kInputBytes, kOutputBytes: the largest of the models'.
template <class Port, class Clock, size_t kInputBytes, size_t kOutputBytes>
class Link {
 public:
  // `model_list` is in flash. The arena is the link's while poll() runs and is painted before each inference.
  // (No name here is one that a sketch may have for a variable of its own: -Wshadow.)
  Link(const Model* model_list, uint8_t model_count, uint8_t* arena_memory, size_t arena_bytes)
      : models_(model_list), arena_(arena_memory), arena_bytes_(arena_bytes), count_(model_count) {}

  // Paints the free stack, so that its high-water mark can be told. Call it from setup().
  void begin() { paint_stack(); }

  // Takes the bytes that are waiting, and answers when they complete a request. Call it from loop().
  void poll() {
    uint16_t patience = 0;
    for (;;) {
      int byte = Port::read();
      if (byte < 0) {
        if (patience == 0) return;
        --patience;
        continue;
      }
      patience = Port::kPatience;
      if (byte == link_protocol::kDelimiter) {
        if (received_ != 0) finish();
        received_ = 0;
        crc_ = 0xFFFFFFFFu;
        escaped_ = false;
      } else if (byte == link_protocol::kEscape) {
        escaped_ = true;
      } else {
        if (escaped_) byte ^= link_protocol::kEscapeBit;
        escaped_ = false;
        take(static_cast<uint8_t>(byte));
      }
    }
  }

 private:
  static uint32_t crc_step(uint32_t crc, uint8_t byte) {
    crc ^= byte;
    for (uint8_t bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0);
    return crc;
  }
  static uint32_t load32(const uint8_t* bytes) {
    return bytes[0] | static_cast<uint32_t>(bytes[1]) << 8 | static_cast<uint32_t>(bytes[2]) << 16 |
           static_cast<uint32_t>(bytes[3]) << 24;
  }

  void take(uint8_t byte) {
    crc_ = crc_step(crc_, byte);
    const size_t at = received_;
    if (at < link_protocol::kHeadBytes) {
      head_[at] = byte;
    } else if (at - link_protocol::kHeadBytes < kInputBytes) {
      // A frame's CRC may land behind its input here; nothing reads it.
      input_[at - link_protocol::kHeadBytes] = byte;
    }
    if (received_ != static_cast<size_t>(-1)) ++received_;
  }

  void finish() {
    using namespace link_protocol;
    if (crc_ != kGoodCrc || received_ < static_cast<size_t>(kHeaderBytes) + kCrcBytes) return;
    const size_t length = received_ - kHeaderBytes - kCrcBytes;
    if (load32(head_ + 3) != length) return;
    const uint8_t type = head_[0];
    if (type == kHello) {
      if (length != 5) return refuse(kWrongLength);
      session_ = load32(head_ + kHeaderBytes);
      ran_ = false;
      return greet();
    }
    if (type != kDescribe && type != kRun) return refuse(kUnknownRequest);
    if (length < 5) return refuse(kWrongLength);
    if (session_ == 0 || load32(head_ + kHeaderBytes) != session_) return refuse(kWrongSession);
    const uint8_t index = head_[kHeadBytes - 1];
    if (index >= count_) return refuse(kNoSuchModel);
    const Model* const model = models_ + index;
    if (type == kDescribe) return length == 5 ? describe(model) : refuse(kWrongLength);
    if (length - 5 != flash_load(&model->input_bytes)) return refuse(kWrongLength);
    const uint16_t sequence = static_cast<uint16_t>(head_[1] | head_[2] << 8);
    if (!ran_ || sequence != sequence_) {
      if (flash_load(&model->input_bytes) > kInputBytes || flash_load(&model->output_bytes) > kOutputBytes ||
          flash_load(&model->arena_bytes) > arena_bytes_) {
        return refuse(kDoesNotFit);
      }
      run(model);
      sequence_ = sequence;
      ran_ = true;
    }
    answer(static_cast<size_t>(flash_load(&model->output_bytes)));
  }

  void run(const Model* model) {
    paint_ = static_cast<uint8_t>(~paint_);  // twice the same sample: what one paint hides the other shows
    for (size_t i = 0; i < arena_bytes_; ++i) arena_[i] = paint_;
    uint8_t (*const infer)(const void*, void*, uint8_t*, size_t) = flash_load(&model->infer);
    Clock::start();
    status_ = infer(input_, output_, arena_, arena_bytes_);
    latency_ = Clock::stop();
    arena_used_ = arena_bytes_;
    while (arena_used_ != 0 && arena_[arena_used_ - 1] == paint_) --arena_used_;
  }

  void greet() {
    open(link_protocol::kHello, 23);
    put(link_protocol::kVersion);
    put32(session_);
    put(Clock::kKind);
    put32(Clock::kScaleNumerator);
    put32(Clock::kScaleDenominator);
    put32(static_cast<uint32_t>(stack_room()));
    put32(static_cast<uint32_t>(arena_bytes_));
    put(count_);
    close();
  }

  void describe(const Model* model) {
    uint8_t name_bytes = 0;
    while (name_bytes < sizeof model->name && flash_load(&model->name[name_bytes]) != 0) ++name_bytes;
    open(link_protocol::kDescribe, 25u + name_bytes);
    put32(session_);
    put(head_[link_protocol::kHeadBytes - 1]);
    put32(flash_load(&model->hash));
    put32(flash_load(&model->arena_bytes));
    put32(flash_load(&model->input_bytes));
    put32(flash_load(&model->output_bytes));
    put32(static_cast<uint32_t>(stack_used()));
    for (uint8_t i = 0; i < name_bytes; ++i) put(static_cast<uint8_t>(flash_load(&model->name[i])));
    close();
  }

  void answer(size_t output_bytes) {
    open(link_protocol::kRun, 14u + output_bytes);
    put32(session_);
    put(head_[link_protocol::kHeadBytes - 1]);
    put(status_);
    put32(latency_);
    put32(static_cast<uint32_t>(arena_used_));
    for (size_t i = 0; i < output_bytes; ++i) put(output_[i]);
    close();
  }

  void refuse(uint8_t reason) {
    open(link_protocol::kError & ~link_protocol::kReply, 1);
    put(reason);
    close();
  }

  // A reply carries its request's sequence number.
  void open(uint8_t type, size_t length) {
    Port::write(link_protocol::kDelimiter);
    crc_ = 0xFFFFFFFFu;
    put(type | link_protocol::kReply);
    put(head_[1]);
    put(head_[2]);
    put32(static_cast<uint32_t>(length));
  }

  void close() {
    put32(~crc_);
    Port::write(link_protocol::kDelimiter);
  }

  void put32(uint32_t value) {
    for (uint8_t i = 0; i < 4; ++i, value >>= 8) put(static_cast<uint8_t>(value));
  }

  void put(uint8_t byte) {
    crc_ = crc_step(crc_, byte);
    if (byte == link_protocol::kDelimiter || byte == link_protocol::kEscape) {
      Port::write(link_protocol::kEscape);
      byte ^= link_protocol::kEscapeBit;
    }
    Port::write(byte);
  }

  alignas(8) uint8_t input_[kInputBytes];
  alignas(8) uint8_t output_[kOutputBytes];
  const Model* models_;
  uint8_t* arena_;
  size_t arena_bytes_;
  uint32_t session_ = 0;  // until a host greets: a board that was reset has forgotten it, and says so
  uint32_t crc_ = 0;
  size_t received_ = 0;
  uint32_t latency_ = 0;
  size_t arena_used_ = 0;
  uint16_t sequence_ = 0;  // of the last request that ran: asked again, it is answered again but not run again
  uint8_t count_;
  uint8_t status_ = 0;
  bool ran_ = false;
  bool escaped_ = false;
  uint8_t paint_ = 0xA5;
  uint8_t head_[link_protocol::kHeadBytes];
};

}  // namespace minun

#endif
