#include "tandem/model/files/pickle_reader.h"

#include <ATen/ATen.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "tandem/base/error.h"
#include "tandem/base/text.h"

// A pickle is a program for a stack machine. These are the operations of protocol 2 that data of the header's kinds
// needs (Python's pickletools.py names and describes each). Values lie on a stack; a mark separates the elements of a
// container that is being built; the memo keeps values that the program refers to again. A global is a name
// ("torch._utils _rebuild_tensor_v2"); "calling" it means here to look its name up in the short list of reduce(), so
// nothing of the file is ever executed. Every length and index comes from the file and is compared with what is there
// before it is used.
namespace tandem::model {
namespace {

constexpr int kMostNesting = 64;  // of containers: reading and destroying them is recursive

// One entry of the stack. Tuples keep their elements as entries, because the arguments of a call hold globals and
// storages, which are no values.
struct Item {
  enum class Kind { kValue, kMark, kGlobal, kTuple, kStorage } kind = Kind::kValue;
  at::IValue value{};            // kStorage: its elements
  std::string name{};            // kGlobal: "module name"
  std::vector<Item> elements{};  // kTuple
  int nesting = 0;
};
using Kind = Item::Kind;

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kStorages{
    {{"torch DoubleStorage", at::kDouble},
     {"torch FloatStorage", at::kFloat},
     {"torch HalfStorage", at::kHalf},
     {"torch BFloat16Storage", at::kBFloat16},
     {"torch LongStorage", at::kLong},
     {"torch IntStorage", at::kInt},
     {"torch ShortStorage", at::kShort},
     {"torch CharStorage", at::kChar},
     {"torch ByteStorage", at::kByte},
     {"torch BoolStorage", at::kBool}}};

class Reader {
 public:
  Reader(std::string_view pickle, const LoadStorage& load_storage) : pickle_(pickle), load_storage_(load_storage) {}

  at::IValue run() {
    for (char operation = take(1)[0]; operation != '.'; operation = take(1)[0]) execute(operation);
    at::IValue result = plain(pop());
    if (!stack_.empty()) fail("values are left over");
    return result;
  }

 private:
  // Throws with the byte that is read next.
  [[noreturn]] void fail(const std::string& why) const {
    throw CheckpointError(concat("the pickle is not what can be read here: byte ", at_, ": ", why));
  }

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
  // The text up to the next line feed: half of a global's name.
  std::string line() {
    const std::size_t end = pickle_.find('\n', at_);
    if (end == std::string_view::npos) fail("a name without an end");
    const std::string_view text = take(end - at_ + 1);
    return std::string(text.substr(0, text.size() - 1));
  }

  void push(at::IValue value) { stack_.push_back({.value = std::move(value)}); }
  Item pop() {
    if (stack_.empty() || stack_.back().kind == Kind::kMark) fail("a value is missing");
    Item item = std::move(stack_.back());
    stack_.pop_back();
    return item;
  }
  Item& top() {
    if (stack_.empty()) fail("a value is missing");
    return stack_.back();
  }
  // Takes everything above the last mark, and the mark.
  std::vector<Item> pop_to_mark() {
    std::vector<Item> items;
    while (!stack_.empty() && stack_.back().kind != Kind::kMark) {
      items.insert(items.begin(), std::move(stack_.back()));
      stack_.pop_back();
    }
    if (stack_.empty()) fail("a mark is missing");
    stack_.pop_back();
    return items;
  }
  void push_tuple(std::vector<Item> elements) {
    Item tuple{.kind = Kind::kTuple};
    for (const Item& element : elements) nest(tuple, element);
    tuple.elements = std::move(elements);
    stack_.push_back(std::move(tuple));
  }
  void push_last_as_tuple(std::size_t count) {
    std::vector<Item> elements(count);
    while (count > 0) elements[--count] = pop();
    push_tuple(std::move(elements));
  }
  // Notes that `outer` contains `inner`, and refuses containers that are nested too deep.
  void nest(Item& outer, const Item& inner) const {
    outer.nesting = std::max(outer.nesting, inner.nesting + 1);
    if (outer.nesting > kMostNesting) fail(concat("containers are nested more than ", kMostNesting, " deep"));
  }

  // The entry as a value, which globals, storages and marks are not.
  [[nodiscard]] at::IValue plain(const Item& item) const {
    if (item.kind == Kind::kValue) return item.value;
    if (item.kind != Kind::kTuple) fail(concat("a bare '", item.name, "'; only data can be read"));
    std::vector<at::IValue> elements;
    for (const Item& element : item.elements) elements.push_back(plain(element));
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  [[nodiscard]] std::int64_t integer(const Item& item) const {
    if (item.kind != Kind::kValue || !item.value.isInt()) fail("an integer was expected");
    return item.value.toInt();
  }
  [[nodiscard]] std::string text(const Item& item) const {
    if (item.kind != Kind::kValue || !item.value.isString()) fail("a string was expected");
    return item.value.toStringRef();
  }
  [[nodiscard]] std::vector<std::int64_t> integers(const Item& item) const {
    if (item.kind != Kind::kTuple) fail("a tuple of integers was expected");
    std::vector<std::int64_t> all;
    for (const Item& element : item.elements) all.push_back(integer(element));
    return all;
  }

  void append(const std::vector<Item>& items) {
    Item& list = top();
    if (list.kind != Kind::kValue || !list.value.isList()) fail("something is appended to what is no list");
    auto values = list.value.toList();
    for (const Item& item : items) {
      nest(list, item);
      values.push_back(plain(item));
    }
  }
  void set_items(const std::vector<Item>& items) {
    Item& dict = top();
    if (dict.kind != Kind::kValue || !dict.value.isGenericDict() || items.size() % 2 != 0)
      fail("something is put into what is no dict");
    auto values = dict.value.toGenericDict();
    for (std::size_t i = 0; i < items.size(); i += 2) {
      const at::IValue key = plain(items[i]);
      if (!key.isString() && !key.isInt() && !key.isDouble() && !key.isBool())
        fail(concat("a dict with a key of kind ", key.tagKind()));
      nest(dict, items[i + 1]);
      values.insert_or_assign(key, plain(items[i + 1]));
    }
  }

  // Replaces a persistent id, ("storage", type, key, location, count), by the storage that it names.
  void push_storage() {
    const Item id = pop();
    if (id.kind != Kind::kTuple || id.elements.size() < 5 || text(id.elements[0]) != "storage" ||
        id.elements[1].kind != Kind::kGlobal) {
      fail("a reference to something other than a storage");
    }
    std::optional<at::ScalarType> dtype;
    for (const auto& [name, type] : kStorages) {
      if (name == id.elements[1].name) dtype = type;
    }
    if (!dtype) fail(concat("a storage of kind '", id.elements[1].name, "'"));
    const std::int64_t count = integer(id.elements[4]);
    if (count < 0) fail("a storage of negative size");
    stack_.push_back({.kind = Kind::kStorage, .value = load_storage_(text(id.elements[2]), *dtype, count)});
  }

  // The tensor of _rebuild_tensor_v2's arguments, (storage, offset, sizes, strides, requires_grad, hooks), copied out
  // of the storage after it was checked to lie within it.
  at::Tensor tensor(const std::vector<Item>& arguments) {
    if (arguments.size() < 4 || arguments[0].kind != Kind::kStorage) fail("a tensor without a storage");
    const at::Tensor& storage = arguments[0].value.toTensor();
    const std::int64_t offset = integer(arguments[1]);
    const std::vector<std::int64_t> sizes = integers(arguments[2]), strides = integers(arguments[3]);
    if (sizes.size() != strides.size() || offset < 0) fail("a tensor with impossible sizes");
    std::int64_t last = offset;
    bool is_empty = false;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] < 0 || strides[d] < 0) fail("a tensor with impossible sizes");
      if (sizes[d] == 0) is_empty = true;
      std::int64_t reach = 0;
      if (sizes[d] > 0 &&
          (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) || __builtin_add_overflow(last, reach, &last)))
        fail("a tensor with impossible sizes");
    }
    if (is_empty) return at::empty(sizes, storage.options());
    if (last >= storage.numel()) fail("a tensor that reaches beyond its storage");
    if (c10::multiply_integers(sizes) > storage.numel()) fail("a tensor whose elements overlap");
    return storage.as_strided(sizes, strides, offset).clone();
  }

  void reduce() {
    const Item arguments = pop(), function = pop();
    if (function.kind != Kind::kGlobal || arguments.kind != Kind::kTuple) fail("a call of what is no function");
    if (function.name == "collections OrderedDict" && arguments.elements.empty()) return push(empty_dict());
    if (function.name == "torch._utils _rebuild_tensor_v2") return push(tensor(arguments.elements));
    if (function.name == "torch._utils _rebuild_parameter" && !arguments.elements.empty())
      return push(plain(arguments.elements[0]));
    fail(concat("a value made by '", function.name,
                "'; save plain data: torch.save(net.state_dict(), ...), not the module"));
  }

  // A Python object, of a class that is not known here: what torch.save(net) writes.
  [[noreturn]] void fail_object() {
    (void)pop();  // the constructor's arguments
    const Item of = pop();
    const std::size_t dot = of.name.find(' ');
    fail(concat(
        "an object of the Python class '", dot == std::string::npos ? of.name : of.name.substr(dot + 1),
        "'. Objects, whole modules among them, are for Python alone: there, save torch.save(net.state_dict(), ...)"));
  }

  static at::IValue empty_dict() { return c10::impl::GenericDict(c10::AnyType::get(), c10::AnyType::get()); }

  // Executes one operation other than '.', which ends the pickle.
  void execute(char operation) {
    if (operation == '\x80') {  // PROTO
      if (unsigned_number(1) != 2) fail("another protocol than 2, which torch.save() takes unless told otherwise");
      return;
    }
    if (operation == 'q' || operation == 'r') {  // BINPUT
      const std::uint64_t index = unsigned_number(operation == 'q' ? 1 : 4);
      memo_[index] = top();
      return;
    }
    if (operation == 'h' || operation == 'j') {  // BINGET
      const auto found = memo_.find(unsigned_number(operation == 'h' ? 1 : 4));
      if (found == memo_.end()) fail("a reference to what was not there before");
      return stack_.push_back(found->second);
    }
    if (operation == '(') return stack_.push_back({.kind = Kind::kMark});
    if (operation == 'c') {  // GLOBAL
      std::string module = line();
      return stack_.push_back({.kind = Kind::kGlobal, .name = concat(module, " ", line())});
    }
    if (operation == 'Q') return push_storage();  // BINPERSID
    if (operation == '\x81') fail_object();       // NEWOBJ
    if (operation == 'R') return reduce();
    if (operation == 'b') {  // BUILD: attributes of a dict, such as _metadata of state_dict()
      (void)pop();
      if (top().kind != Kind::kValue) fail("attributes of what is no dict");
      return;
    }
    if (operation == '}') return push(empty_dict());
    if (operation == ']') return push(c10::impl::GenericList(c10::AnyType::get()));
    if (operation == ')') return push_tuple({});
    if (operation == 't') return push_tuple(pop_to_mark());
    if (operation >= '\x85' && operation <= '\x87')
      return push_last_as_tuple(static_cast<std::size_t>(operation - '\x84'));
    if (operation == 'a') return append({pop()});
    if (operation == 'e') return append(pop_to_mark());
    if (operation == 's') {
      Item value = pop(), key = pop();
      return set_items({std::move(key), std::move(value)});
    }
    if (operation == 'u') return set_items(pop_to_mark());
    if (operation == 'N') return push({});
    if (operation == '\x88' || operation == '\x89') return push(operation == '\x88');
    if (operation == 'J') return push(signed_number(4));
    if (operation == 'K') return push(static_cast<std::int64_t>(unsigned_number(1)));
    if (operation == 'M') return push(static_cast<std::int64_t>(unsigned_number(2)));
    if (operation == '\x8a') return push(signed_number(unsigned_number(1)));  // LONG1
    if (operation == 'G') return push(big_endian_double());
    if (operation == 'X') return push(std::string(take(unsigned_number(4))));  // BINUNICODE
    fail(concat("operation ", static_cast<int>(static_cast<unsigned char>(operation))));
  }

  const std::string_view pickle_;
  const LoadStorage& load_storage_;
  std::size_t at_ = 0;
  std::vector<Item> stack_;
  std::map<std::uint64_t, Item> memo_;
};

}  // namespace

at::IValue read_pickle(std::string_view pickle, const LoadStorage& load_storage) {
  return Reader(pickle, load_storage).run();
}

}  // namespace tandem::model
