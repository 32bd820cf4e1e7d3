#include "tandem/model/files/pickle_reader.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/base/budget.h"
#include "tandem/base/error.h"
#include "tandem/base/text.h"
#include "tandem/model/files/pickle_nodes.h"

// A pickle is a program for a stack machine. These are the operations of protocol 2 that data of the header's kinds
// needs (Python's pickletools.py names and describes each). Values lie on a stack; a mark separates the elements of a
// container that is being built; the memo keeps values that the program refers to again. A global is a name
// ("torch._utils _rebuild_tensor_v2"); "calling" it means here to look its name up in the short list of reduce(), so
// nothing of the file is ever executed. Every length and index comes from the file and is compared with what is there
// before it is used.
namespace tandem::model {
namespace {

using Kind = PickleNode::Kind;

// What the reader takes for a node (with its places on the stack and in the memo, and its value later), for a part of a
// container, and for a tensor, in round numbers of bytes.
constexpr std::uint64_t kNodeBytes = 96, kPartBytes = 8, kTensorBytes = 1024;
constexpr std::uint64_t kFreeBytes = std::uint64_t{64} << 20, kBytesAByte = 64;
constexpr std::size_t kMostDimensionsHere = 64;  // torch's own limit
constexpr std::size_t kLongestKey = 100;         // of a storage; torch.save() numbers them
constexpr PickleId kMark = std::numeric_limits<PickleId>::max();

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kStorages{
    {{"torch\nDoubleStorage", at::kDouble},
     {"torch\nFloatStorage", at::kFloat},
     {"torch\nHalfStorage", at::kHalf},
     {"torch\nBFloat16Storage", at::kBFloat16},
     {"torch\nLongStorage", at::kLong},
     {"torch\nIntStorage", at::kInt},
     {"torch\nShortStorage", at::kShort},
     {"torch\nCharStorage", at::kChar},
     {"torch\nByteStorage", at::kByte},
     {"torch\nBoolStorage", at::kBool}}};

class Reader {
 public:
  Reader(std::string_view pickle, const LoadStorage& load_storage)
      : pickle_(pickle),
        load_storage_(load_storage),
        budget_({.bytes = kFreeBytes + kBytesAByte * pickle.size(), .depth = kMostPickleDepth}, fail_pickle) {}

  at::IValue run() {
    for (char operation = take(1)[0]; operation != '.'; operation = take(1)[0]) execute(operation);
    const PickleId result = pop();
    if (!stack_.empty()) fail("values are left over");
    return pickle_value(built_, result, budget_);
  }

 private:
  using Ids = std::vector<PickleId>;

  // Throws with the byte that is read next.
  [[noreturn]] void fail(const std::string& why) const { fail_pickle(concat("byte ", at_, ": ", why)); }

  std::string_view take(std::uint64_t count) {
    if (count > pickle_.size() - at_) fail("it ends in the middle of an operation");
    at_ += count;
    return pickle_.substr(at_ - count, count);
  }
  // A little-endian number of at most 8 bytes.
  std::uint64_t unsigned_number(std::size_t bytes) {
    std::uint64_t number = 0;
    const std::string_view from = take(bytes);
    for (std::size_t i = bytes; i-- > 0;) number = number << 8 | static_cast<unsigned char>(from[i]);
    return number;
  }
  std::int64_t signed_number(std::size_t bytes) {
    if (bytes > 8) fail("an integer of more than 64 bits");
    if (bytes == 0) return 0;
    const auto shift = static_cast<int>(64 - 8 * bytes);
    return static_cast<std::int64_t>(unsigned_number(bytes) << shift) >> shift;
  }
  double big_endian_double() {
    const std::string_view from = take(8);
    std::uint64_t bits = 0;
    for (const char byte : from) bits = bits << 8 | static_cast<unsigned char>(byte);
    return std::bit_cast<double>(bits);
  }
  // The next two lines, which are the name of a global: "module\nname".
  std::string_view global_name() {
    const std::size_t begin = at_;
    for (int line = 0; line < 2; ++line) {
      const std::size_t end = pickle_.find('\n', at_);
      if (end == std::string_view::npos) fail("a name without an end");
      at_ = end + 1;
    }
    return pickle_.substr(begin, at_ - 1 - begin);
  }

  template <typename Content>
  void push(Kind kind, Content content) {
    budget_.take_bytes(kNodeBytes);
    built_.nodes.push_back({kind, std::move(content)});
    stack_.push_back(static_cast<PickleId>(built_.nodes.size() - 1));
  }
  void push_number(Kind kind, std::int64_t number) { push(kind, number); }
  PickleId top() const {
    if (stack_.empty() || stack_.back() == kMark) fail("a value is missing");
    return stack_.back();
  }
  PickleId pop() {
    const PickleId id = top();
    stack_.pop_back();
    return id;
  }
  Ids pop_last(std::size_t count) {
    Ids ids(count);
    while (count > 0) ids[--count] = pop();
    return ids;
  }
  // Takes everything above the last mark, and the mark.
  Ids pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    if (mark == stack_.rend()) fail("a mark is missing");
    Ids ids(mark.base(), stack_.end());
    stack_.erase(mark.base() - 1, stack_.end());
    return ids;
  }
  void push_tuple(Ids parts) {
    budget_.take_bytes(kPartBytes * parts.size());
    push(Kind::kTuple, std::move(parts));
  }

  [[nodiscard]] const PickleNode& node(PickleId id) const { return built_.nodes[id]; }
  [[nodiscard]] std::int64_t integer(PickleId id) const {
    if (node(id).kind != Kind::kInt) fail("an integer was expected");
    return node(id).number();
  }
  [[nodiscard]] std::string_view text(PickleId id) const {
    if (node(id).kind != Kind::kText) fail("a string was expected");
    return node(id).text();
  }
  // Sizes or strides. The length is looked at first: a long tuple could be given to many tensors.
  [[nodiscard]] std::vector<std::int64_t> integers(PickleId id) const {
    if (node(id).kind != Kind::kTuple) fail("a tuple of integers was expected");
    if (node(id).parts().size() > kMostDimensionsHere)
      fail(concat("a tensor of ", node(id).parts().size(), " dimensions; ", kMostDimensionsHere, " are possible"));
    std::vector<std::int64_t> all;
    for (const PickleId part : node(id).parts()) all.push_back(integer(part));
    return all;
  }

  // Adds parts to the list or dict on top of the stack.
  void extend(Kind kind, const Ids& parts) {
    PickleNode& container = built_.nodes[top()];
    if (container.kind != kind || (kind == Kind::kDict && parts.size() % 2 != 0))
      fail(kind == Kind::kDict ? "something is put into what is no dict" : "something is appended to what is no list");
    budget_.take_bytes(kPartBytes * parts.size());
    Ids& all = std::get<Ids>(container.content);
    all.insert(all.end(), parts.begin(), parts.end());
  }

  // Replaces a persistent id, ("storage", type, key, location, count), by the storage that it names.
  void push_storage() {
    const PickleNode& id = node(pop());
    if (id.kind != Kind::kTuple || id.parts().size() < 5 || text(id.parts()[0]) != "storage" ||
        node(id.parts()[1]).kind != Kind::kGlobal) {
      fail("a reference to something other than a storage");
    }
    const std::string_view type = node(id.parts()[1]).text(), key = text(id.parts()[2]);
    const auto* known = std::ranges::find(kStorages, type, [](const auto& each) { return each.first; });
    if (known == kStorages.end()) fail(concat("a storage of kind '", python_name(type), "'"));
    if (key.size() > kLongestKey) fail(concat("a storage with a name of ", key.size(), " bytes"));
    push_number(Kind::kStorage, storage(std::string(key), known->second, integer(id.parts()[4])));
  }

  // The place of a storage in `tensors`. It is loaded when it is named for the first time only.
  std::int64_t storage(const std::string& key, at::ScalarType dtype, std::int64_t count) {
    if (count < 0) fail("a storage of negative size");
    const auto [found, is_new] = storages_.try_emplace(key, static_cast<std::int64_t>(built_.tensors.size()));
    if (is_new) {
      budget_.take_bytes(kTensorBytes);
      built_.tensors.push_back(load_storage_(key, dtype, count));
    }
    const at::Tensor& elements = built_.tensors[static_cast<std::size_t>(found->second)];
    if (elements.scalar_type() != dtype || elements.numel() != count)
      fail(concat("storage '", key, "' as ", count, " of ", dtype, " and as ", elements.numel(), " of ",
                  elements.scalar_type()));
    return found->second;
  }

  // The tensor of _rebuild_tensor_v2's arguments, (storage, offset, sizes, strides, requires_grad, hooks), after it was
  // checked to lie within its storage.
  at::Tensor tensor(const Ids& arguments) {
    if (arguments.size() < 4 || node(arguments[0]).kind != Kind::kStorage) fail("a tensor without a storage");
    const at::Tensor& storage = built_.tensors[static_cast<std::size_t>(node(arguments[0]).number())];
    const std::int64_t offset = integer(arguments[1]);
    const std::vector<std::int64_t> sizes = integers(arguments[2]), strides = integers(arguments[3]);
    if (sizes.size() != strides.size() || offset < 0) fail("a tensor with impossible sizes");
    std::int64_t last = offset, count = 1;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::int64_t size = std::max<std::int64_t>(sizes[d], 1);
      std::int64_t reach = 0;
      if (sizes[d] < 0 || strides[d] < 0 || __builtin_mul_overflow(size - 1, strides[d], &reach) ||
          __builtin_add_overflow(last, reach, &last) || __builtin_mul_overflow(count, size, &count))
        fail("a tensor with impossible sizes");
    }
    budget_.take_bytes(kTensorBytes);
    if (std::ranges::find(sizes, 0) != sizes.end()) return at::empty(sizes, storage.options());
    if (last >= storage.numel()) fail("a tensor that reaches beyond its storage");
    if (count > storage.numel()) fail("a tensor whose elements overlap");
    const at::AutoDispatchBelowADInplaceOrView plain;  // for a tensor of its own, and no view in autograd's sense
    return storage.as_strided(sizes, strides, offset);
  }
  void push_tensor(const Ids& arguments) {
    built_.tensors.push_back(tensor(arguments));
    push_number(Kind::kTensor, static_cast<std::int64_t>(built_.tensors.size() - 1));
  }

  void reduce() {
    const PickleNode& arguments = node(pop());
    const PickleNode& function = node(pop());
    if (function.kind != Kind::kGlobal || arguments.kind != Kind::kTuple) fail("a call of what is no function");
    const std::string_view name = function.text();
    if (name == "collections\nOrderedDict" && arguments.parts().empty()) return push(Kind::kDict, Ids());
    if (name == "torch._utils\n_rebuild_tensor_v2") return push_tensor(arguments.parts());
    if (name == "torch._utils\n_rebuild_parameter" && !arguments.parts().empty())
      return stack_.push_back(arguments.parts()[0]);
    fail(concat("a value made by '", python_name(name),
                "'; save plain data: torch.save(net.state_dict(), ...), not the module"));
  }

  // A Python object, of a class that is not known here: what torch.save(net) writes.
  [[noreturn]] void fail_object() {
    (void)pop();  // the constructor's arguments
    const PickleNode& of = node(pop());
    const std::string name = of.kind == Kind::kGlobal ? python_name(of.text()) : "";
    const std::size_t dot = name.find(' ');
    fail(concat(
        "an object of the Python class '", dot == std::string::npos ? name : name.substr(dot + 1),
        "'. Objects, whole modules among them, are for Python alone: there, save torch.save(net.state_dict(), ...)"));
  }

  // Executes one operation other than '.', which ends the pickle.
  void execute(char operation) {
    switch (operation) {
      case '\x80':  // PROTO
        if (unsigned_number(1) != 2) fail("another protocol than 2, which torch.save() takes unless told otherwise");
        return;
      case 'q':  // BINPUT
      case 'r':  // LONG_BINPUT
        memo_[unsigned_number(operation == 'q' ? 1 : 4)] = top();
        return;
      case 'h':  // BINGET
      case 'j':  // LONG_BINGET
        return recall(unsigned_number(operation == 'h' ? 1 : 4));
      case '(':
        return stack_.push_back(kMark);
      case 'c':
        return push(Kind::kGlobal, global_name());
      case 'Q':
        return push_storage();  // BINPERSID
      case '\x81':
        fail_object();  // NEWOBJ
      case 'R':
        return reduce();
      case 'b':  // BUILD: attributes of a dict, such as _metadata of state_dict()
        (void)pop();
        if (node(top()).kind != Kind::kDict) fail("attributes of what is no dict");
        return;
      default:
        return execute_container(operation);
    }
  }
  void recall(std::uint64_t index) {
    const auto found = memo_.find(index);
    if (found == memo_.end()) fail("a reference to what was not there before");
    stack_.push_back(found->second);
  }

  void execute_container(char operation) {
    switch (operation) {
      case '}':
        return push(Kind::kDict, Ids());
      case ']':
        return push(Kind::kList, Ids());
      case ')':
        return push_tuple({});
      case 't':
        return push_tuple(pop_to_mark());
      case '\x85':
      case '\x86':
      case '\x87':
        return push_tuple(pop_last(static_cast<std::size_t>(operation - '\x84')));
      case 'a':
        return extend(Kind::kList, pop_last(1));
      case 'e':
        return extend(Kind::kList, pop_to_mark());
      case 's':
        return extend(Kind::kDict, pop_last(2));
      case 'u':
        return extend(Kind::kDict, pop_to_mark());
      default:
        return execute_plain(operation);
    }
  }

  void execute_plain(char operation) {
    switch (operation) {
      case 'N':
        return push_number(Kind::kNone, 0);
      case '\x88':
      case '\x89':
        return push_number(Kind::kBool, operation == '\x88' ? 1 : 0);
      case 'J':
        return push_number(Kind::kInt, signed_number(4));
      case 'K':
        return push_number(Kind::kInt, static_cast<std::int64_t>(unsigned_number(1)));
      case 'M':
        return push_number(Kind::kInt, static_cast<std::int64_t>(unsigned_number(2)));
      case '\x8a':  // LONG1
        return push_number(Kind::kInt, signed_number(unsigned_number(1)));
      case 'G':
        return push(Kind::kDouble, big_endian_double());
      case 'X':  // BINUNICODE
        return push(Kind::kText, take(unsigned_number(4)));
      default:
        fail(concat("operation ", static_cast<int>(static_cast<unsigned char>(operation))));
    }
  }

  const std::string_view pickle_;
  const LoadStorage& load_storage_;
  Budget budget_;
  std::size_t at_ = 0;
  Ids stack_;
  std::map<std::uint64_t, PickleId> memo_;
  std::map<std::string, std::int64_t> storages_;  // by key, the place in built_.tensors
  PickleNodes built_;
};

}  // namespace

at::IValue read_pickle(std::string_view pickle, const LoadStorage& load_storage) {
  return Reader(pickle, load_storage).run();
}

}  // namespace tandem::model
