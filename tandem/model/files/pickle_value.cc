#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/files/pickle_nodes.h"

namespace tandem::model {
namespace {

using Kind = PickleNode::Kind;

// Bytes that values of LibTorch take, in round numbers.
constexpr std::uint64_t kContainerBytes = 128, kElementBytes = 32, kDictBytes = 512, kTextBytes = 96, kSlotBytes = 64;

// LibTorch's dicts are hash tables that double until no key lies further from its place than a bound allows, and the
// hashes are known to everybody: 40 keys can be chosen whose table would have 2^40 slots. So the size of the table is
// computed before it is made, from the places of the sorted hashes, and each doubling is paid for.
// (c10/util/order_preserving_flat_hash_map.h: Fibonacci hashing, at most half full, linear probing.)
void pay_for_table(std::vector<std::uint64_t> hashes, Budget& budget) {
  constexpr std::uint64_t kGoldenRatio = 11400714819323198485U;
  constexpr int kLeastBits = 2, kMostBits = 48;
  constexpr std::uint64_t kLeastLookups = 4;
  for (std::uint64_t& hash : hashes) hash *= kGoldenRatio;
  std::ranges::sort(hashes);
  for (int bits = kLeastBits; bits < kMostBits; ++bits) {
    budget.take_bytes(kSlotBytes << bits);
    if (hashes.size() > std::uint64_t{1} << (bits - 1)) continue;
    const std::uint64_t most = std::max(kLeastLookups, static_cast<std::uint64_t>(bits));
    std::uint64_t next = 0, furthest = 0;  // `next`: the first slot that is free
    for (const std::uint64_t hash : hashes) {
      const std::uint64_t wanted = hash >> (64 - bits), slot = std::max(wanted, next);
      furthest = std::max(furthest, slot - wanted);
      next = slot + 1;
    }
    if (furthest < most) return;
  }
  fail_pickle("a dict whose keys were chosen to make it slow");
}

class Builder {
 public:
  Builder(const PickleNodes& nodes, Budget& budget) : nodes_(nodes), budget_(budget), made_(nodes.nodes.size()) {}

  const at::IValue& value(PickleId id) {
    Made& made = made_[id];
    if (made.parts == kOpen) fail_pickle("a container that is a part of itself");
    if (made.parts != kNotYet) return made.value;
    made.parts = kOpen;
    Extent extent;
    at::IValue value = make(nodes_.nodes[id], extent);
    if (extent.parts > kMostPickleParts)
      fail_pickle(
          concat("it has more than ", kMostPickleParts, " parts, counted as often as containers refer to them"));
    // Budget::enter() bounds this recursion; what was built before can be deep as well.
    if (extent.depth > kMostPickleDepth)
      fail_pickle(concat("it is nested more than ", kMostPickleDepth, " levels deep"));
    made = {.value = std::move(value), .parts = static_cast<std::uint32_t>(extent.parts), .depth = extent.depth};
    return made.value;
  }

 private:
  static constexpr std::uint32_t kNotYet = 0, kOpen = std::numeric_limits<std::uint32_t>::max();
  struct Made {
    at::IValue value = {};
    std::uint32_t parts = kNotYet;  // the value and everything in it
    int depth = 0;
  };
  struct Extent {
    std::uint64_t parts = 1;
    int depth = 0;  // of containers
  };

  at::IValue make(const PickleNode& node, Extent& extent) {
    switch (node.kind) {
      case Kind::kNone:
        return {};
      case Kind::kBool:
        return node.number() != 0;
      case Kind::kInt:
        return node.number();
      case Kind::kDouble:
        return std::get<double>(node.content);
      case Kind::kText:
        budget_.take_bytes(kTextBytes + node.text().size());
        return std::string(node.text());
      case Kind::kTensor:
        return nodes_.tensors[static_cast<std::size_t>(node.number())];
      case Kind::kTuple:
        return c10::ivalue::Tuple::create(elements(node, extent));
      case Kind::kList:
        return list(node, extent);
      case Kind::kDict:
        return dict(node, extent);
      case Kind::kGlobal:
      case Kind::kStorage:
        break;
    }
    fail_pickle(node.kind == Kind::kStorage ? "a bare storage; only data can be read"
                                            : concat("a bare '", python_name(node.text()), "'; only data can be read"));
  }

  std::vector<at::IValue> elements(const PickleNode& node, Extent& extent) {
    const Budget::Level level = budget_.enter();
    budget_.take_bytes(kContainerBytes + kElementBytes * node.parts().size());
    std::vector<at::IValue> all;
    all.reserve(node.parts().size());
    for (const PickleId part : node.parts()) {
      all.push_back(value(part));
      extent.parts += made_[part].parts;
      extent.depth = std::max(extent.depth, made_[part].depth);
    }
    ++extent.depth;
    return all;
  }

  at::IValue list(const PickleNode& node, Extent& extent) {
    c10::impl::GenericList values(c10::AnyType::get());
    values.reserve(node.parts().size());
    for (at::IValue& element : elements(node, extent)) values.push_back(std::move(element));
    return values;
  }

  at::IValue dict(const PickleNode& node, Extent& extent) {
    budget_.take_bytes(kDictBytes);
    const std::vector<at::IValue> all = elements(node, extent);
    std::vector<std::uint64_t> hashes;
    for (std::size_t i = 0; i < all.size(); i += 2) {
      const at::IValue& key = all[i];
      if (!key.isString() && !key.isInt() && !key.isDouble() && !key.isBool())
        fail_pickle(concat("a dict with a key of kind ", key.tagKind()));
      // A long text can be the key of many dicts, and each of them hashes it.
      if (key.isString()) budget_.take_bytes(key.toStringRef().size());
      hashes.push_back(c10::detail::DictKeyHash()(key));
    }
    pay_for_table(std::move(hashes), budget_);
    c10::impl::GenericDict values(c10::AnyType::get(), c10::AnyType::get());
    for (std::size_t i = 0; i < all.size(); i += 2) {
      if (!values.insert(all[i], all[i + 1]).second)
        fail_pickle(concat("a dict with the key ", key_text(all[i]), " twice"));
    }
    return values;
  }

  static std::string key_text(const at::IValue& key) {
    return key.isString() ? concat("'", key.toStringRef().substr(0, 100), "'") : concat(key);
  }

  const PickleNodes& nodes_;
  Budget& budget_;
  std::vector<Made> made_;
};

}  // namespace

at::IValue pickle_value(const PickleNodes& nodes, PickleId root, Budget& budget) {
  return Builder(nodes, budget).value(root);
}

void fail_pickle(const std::string& why) {
  throw CheckpointError(concat("the pickle is not what can be read here: ", why));
}

std::string python_name(std::string_view global) {
  std::string name(global.substr(0, 100));
  std::ranges::replace(name, '\n', ' ');
  return name;
}

}  // namespace tandem::model
