"""Steps as a program takes them, into the structs of the C files; included in program.pyx."""

import collections

MAX_OPS = IMG_MAX_OPS  # that a picture passes through
MAX_DEPTH = IMG_MAX_DEPTH  # of branches within branches
MAX_MIXED = IMG_MAX_MIXED  # chains of a mix
MIN_ALPHA, MAX_ALPHA = 1e-3, 1e3  # of a mix

# In place of an op's range: it is one number, start + change * level / 10, with a normal level that is cut off at 0 and 10;
# whole: what is added to the start is cut off to a whole number.
DrawnLevel = collections.namedtuple("DrawnLevel", ["mean", "deviation", "start", "change", "whole"])


cdef class _Block:
    """Zeroed memory that is freed with it."""

    cdef void *data

    def __cinit__(self, size_t size):
        self.data = calloc(1, size)
        if self.data == NULL:
            raise MemoryError("no memory for an ImageProgram")

    def __dealloc__(self):
        free(self.data)


cdef class _Steps:
    """The steps of a program, and the memory that they stand in.

    Args:
        given: As ImageProgram takes them.
        channels: Of a picture as it is decoded.
        ids: Its pixels are numbers that only steps take which move them.
        max_pixels: That a step may give a picture.
        first: What messages call the first step.
        on_tensor: They are steps on results, not on pixels.
    """

    cdef img_chain chain
    cdef img_shape shape  # of a result
    cdef bint random, on_tensor
    cdef bint in_mix  # while the chains of one are filled
    cdef list blocks
    cdef int64_t max_pixels
    cdef bint ids

    def __cinit__(self, tuple given, int channels, bint ids, int64_t max_pixels, int first, bint on_tensor):
        self.blocks, self.max_pixels, self.ids, self.on_tensor = [], max_pixels, ids, on_tensor
        self.shape.channels = channels
        count = self._add(&self.chain, given, "", first, 0, &self.shape)
        if count > MAX_OPS:
            raise ValueError(f"{count} steps are more than {MAX_OPS}")

    cdef int _add(self, img_chain *chain, object given, str where, int first, int depth, img_shape *shape) except -1:
        """Fill a chain; return the most steps that a picture passes through."""
        cdef img_op *op
        if not isinstance(given, (tuple, list)):
            raise ValueError(f"{where}steps must be a list, not {given!r}")
        given = tuple(given)  # memory is taken for these, whatever becomes of the list
        op = <img_op *>self._take(len(given) * sizeof(img_op))
        chain.ops, chain.count = op, len(given)
        passes = 0
        for i, one in enumerate(given):
            at = f"{where}step {first + i}"
            if not isinstance(one, (tuple, list)):
                raise ValueError(f"{at} must be (name, fields), not {one!r}")
            one = tuple(one)
            if len(one) < 2 or not isinstance(one[0], str) or not isinstance(one[1], dict):
                raise ValueError(f"{at} must be (name, fields), not {one}")
            if shape.view_height > 0:
                raise ValueError(f"{at} ({one[0]}): it stands behind a step that makes several pictures of one")
            if one[0] in ("maybe", "one_of"):
                passes += self._add_branch(op, one, f"{at} ({one[0]})", depth, shape)
            elif one[0] == "mix":
                passes += self._add_mix(op, one, f"{at} (mix)", depth, shape)
            else:
                self._add_op(op, one, at, shape)
                passes += 1
            if depth > 0 and shape.view_height > 0:
                raise ValueError(f"{at} ({one[0]}): it makes several pictures of one, which a branch can't")
            op += 1
        return passes

    cdef int _add_op(self, img_op *op, tuple given, str where, img_shape *shape) except -1:
        if len(given) != 2:
            raise ValueError(f"{where} must be (name, fields), not {given}")
        name, fields = given
        op.kind = img_find_op_kind(name.encode())
        if op.kind == NULL:
            raise ValueError(f"{where}: no step is called {name!r}: there are {', '.join(op_table())}, maybe, one_of, mix")
        if self.on_tensor and op.kind.on_tensor == NULL:
            raise ValueError(f"{where} ({name}) is a step on pixels alone")
        try:
            _fill_op(op, <uint8_t *>self._take(op.kind.params_size), fields)
        except ValueError as error:
            raise ValueError(f"{where} ({name}): {error}") from error
        if self.ids and (fields.get("filter", "nearest") != "nearest" or not (op.kind.form == IMG_AXIS or op.kind.moves)):
            raise ValueError(f"{where} ({name}): it mixes pixels, and ids may only be moved")
        if self.on_tensor and op.level.deviation > 0:
            raise ValueError(f"{where} ({name}): a level is drawn for pixels alone")
        self.random |= op.kind.draws and not _is_fixed(op)
        if op.kind.follow != NULL:
            op.kind.follow(op.params, shape)
        if shape.height * shape.width > self.max_pixels:
            raise ValueError(
                f"{where} ({name}): results of {shape.height}x{shape.width} have more than "
                f"max_pixels={self.max_pixels}"
            )
        return 0

    cdef int _add_branch(self, img_op *op, tuple given, str where, int depth, img_shape *shape) except -1:
        """Fill a branch; return the most steps of a way through it."""
        cdef img_chain *ways
        cdef double *limits
        cdef img_shape before = shape[0], after
        if depth == MAX_DEPTH:
            raise ValueError(f"{where}: branches lie within each other more than {MAX_DEPTH} deep")
        try:
            chains, bounds = _ways_of(given)
            op.id = _id_of(given[1])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{where}: {error}") from error
        ways = <img_chain *>self._take(len(chains) * sizeof(img_chain))
        limits = <double *>self._take(len(chains) * sizeof(double))
        op.kind, op.ways, op.limits, op.way_count = NULL, ways, limits, len(chains)
        self.random = True
        most = 0
        for i, chain in enumerate(chains):
            limits[i] = bounds[i]
            after = before
            most = max(most, self._add(&ways[i], chain, f"{where}, branch {i + 1}, ", 1, depth + 1, &after))
            if i == 0 and given[0] == "one_of":
                shape[0] = after
            if after.channels != shape.channels:
                raise ValueError(f"{where}: results have {shape.channels} channels or {after.channels}, as it is drawn")
            if after.height != shape.height or after.width != shape.width:
                shape.height = shape.width = 0
        return most

    cdef int _add_mix(self, img_op *op, tuple given, str where, int depth, img_shape *shape) except -1:
        """Fill a mix; return the steps through all of its chains, with one more for each and one for the mix."""
        cdef img_chain *ways
        cdef img_shape after
        if depth == MAX_DEPTH:
            raise ValueError(f"{where}: branches lie within each other more than {MAX_DEPTH} deep")
        if self.ids:
            raise ValueError(f"{where}: it mixes pixels, and ids may only be moved")
        if self.on_tensor:
            raise ValueError(f"{where} is for pixels alone")
        if self.in_mix:
            raise ValueError(f"{where}: a mix can't lie in another mix")
        try:
            chains, op.alpha = _mixed_of(given)
            op.id = _id_of(given[1])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{where}: {error}") from error
        ways = <img_chain *>self._take(len(chains) * sizeof(img_chain))
        op.kind, op.ways, op.limits, op.way_count = NULL, ways, NULL, len(chains)
        self.random = self.in_mix = True
        passes = 1
        for i, chain in enumerate(chains):
            after = shape[0]
            passes += 1 + self._add(&ways[i], chain, f"{where}, chain {i + 1}, ", 1, depth + 1, &after)
            if (after.channels, after.height, after.width) != (shape.channels, shape.height, shape.width):
                raise ValueError(f"{where}: chain {i + 1} changes the size or the channels, and can't be mixed")
        self.in_mix = False
        return passes

    cdef void *_take(self, size_t size) except NULL:
        """Take zeroed memory that lives as long as the program."""
        cdef _Block block = _Block(size if size > 0 else 1)
        self.blocks.append(block)
        return block.data


cdef int _fill_op(img_op *op, uint8_t *params, dict given) except -1:
    """Fill the parameters of an op, whose kind is known, with what was given."""
    cdef const img_field *field = op.kind.fields
    cdef const char *refused = NULL
    names = set()
    while field.name != NULL:
        name = field.name.decode()
        if name not in given:
            raise ValueError(f"{name} is missing")
        try:
            if isinstance(given[name], DrawnLevel):
                _fill_level(op, field, params, given[name])
            else:
                _fill_field(field, params + field.offset, given[name])
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{name} {error}") from error
        names.add(name)
        field += 1
    op.params = params
    if op.kind.draws:
        names.add("id")
        op.id = _id_of(given) if "id" in given or not _is_fixed(op) else 0
    for name in given:
        if name not in names:
            raise ValueError(f"no field is called {name!r}: there are {', '.join(sorted(names))}")
    if op.kind.check != NULL:
        refused = op.kind.check(params)
    if refused != NULL:
        raise ValueError(refused.decode())
    return 0


cdef bint _is_fixed(const img_op *op) noexcept:
    """Whether the parameters of an op leave nothing to be drawn."""
    return op.kind.fixed != NULL and op.kind.fixed(op.params) != 0


def _ways_of(given):
    """Return the chains of a branch, and the limit below which a draw must be for each."""
    if len(given) != 3:
        raise ValueError("it must be (name, fields, branches)")
    name, fields, chains = given
    if set(fields) != {"id", "limits"}:
        raise ValueError(f"its fields must be id, limits, not {', '.join(sorted(fields))}")
    limits = [float(limit) for limit in fields["limits"]]
    if not isinstance(chains, (tuple, list)):
        raise ValueError(f"branches must be a list, not {chains!r}")
    chains = tuple(chains)
    if not limits or len(limits) != len(chains):
        raise ValueError(f"limits must be one for each of one branch or more, not {len(limits)} for {len(chains)}")
    if not all(low <= high for low, high in itertools.pairwise((0.0, *limits, 1.0))):
        raise ValueError(f"limits must go up, within 0 to 1, not {limits}")
    if name == "one_of" and limits[-1] != 1:
        raise ValueError(f"the last limit must be 1, so that a branch is taken, not {limits[-1]}")
    return chains, limits


def _mixed_of(given):
    """Return the chains of a mix, and what its shares are drawn by."""
    if len(given) != 3:
        raise ValueError("it must be (name, fields, chains)")
    _, fields, chains = given
    if set(fields) != {"id", "alpha"}:
        raise ValueError(f"its fields must be alpha, id, not {', '.join(sorted(fields))}")
    alpha = float(fields["alpha"])
    if not MIN_ALPHA <= alpha <= MAX_ALPHA:
        raise ValueError(f"alpha must be {MIN_ALPHA:g} to {MAX_ALPHA:g}, not {alpha}")
    if not isinstance(chains, (tuple, list)):
        raise ValueError(f"chains must be a list, not {chains!r}")
    chains = tuple(chains)
    if not 1 <= len(chains) <= MAX_MIXED:
        raise ValueError(f"there must be 1 to {MAX_MIXED} chains, not {len(chains)}")
    return chains, alpha


cdef uint64_t _id_of(dict given) except? 0:
    if "id" not in given:
        raise ValueError("id is missing")
    try:
        return operator.index(given["id"])
    except (TypeError, OverflowError):
        raise ValueError(f"id must be 0 to 2**64 - 1, not {given['id']!r}") from None


cdef int _fill_field(const img_field *field, uint8_t *place, object value) except -1:
    cdef img_range *ends
    if field.type == IMG_INTEGER:
        whole = operator.index(value)
        if not field.low <= whole <= field.high:
            raise ValueError(f"must be {field.low:.0f} to {field.high:.0f}, not {whole}")
        (<int64_t *>place)[0] = whole
    elif field.type == IMG_NUMBER:
        number = float(value)
        if not field.low <= number <= field.high:
            raise ValueError(f"must be {field.low:g} to {field.high:g}, not {number}")
        (<double *>place)[0] = number
    elif field.type == IMG_CHOICE:
        (<int64_t *>place)[0] = _word(field, value)
    elif field.type == IMG_NUMBERS:
        numbers = [float(number) for number in value]
        if len(numbers) != field.count or not all(field.low <= number <= field.high for number in numbers):
            raise ValueError(f"must be {field.count} numbers of {field.low:g} to {field.high:g}, not {numbers}")
        for i in range(field.count):
            (<double *>place)[i] = numbers[i]
    elif value is not None or field.type != IMG_OPTIONAL_RANGE:
        ends = <img_range *>place
        low, high = (float(end) for end in value)
        if not field.low <= low <= high <= field.high:
            raise ValueError(f"must be a range that goes up, within {field.low:g} to {field.high:g}, not {low} to {high}")
        ends.given, ends.low, ends.high = 1, low, high
    return 0


cdef int _fill_level(img_op *op, const img_field *field, uint8_t *params, object given) except -1:
    """Fill the level of an op, and its range with all that may be drawn."""
    if field.type not in (IMG_RANGE, IMG_OPTIONAL_RANGE) or not op.kind.draws or op.kind.params_size > IMG_MAX_PARAMS:
        raise ValueError("can't be drawn by a level")
    if op.level.deviation > 0:
        raise ValueError("is the second one that is drawn by a level")
    mean, deviation, start, change = (float(number) for number in given[:4])
    if not (0 <= mean <= 10 and 0 < deviation < math.inf):
        raise ValueError(f"must have a mean of 0 to 10 and a deviation above 0, not {mean} and {deviation}")
    _fill_field(field, params + field.offset, sorted((start, start + change)))
    op.level.mean, op.level.deviation, op.level.start, op.level.change = mean, deviation, start, change
    op.level.whole, op.level.offset = bool(given.whole), field.offset
    return 0


cdef tuple _words(const img_field *field):
    """Return the words of a choice; of any other field none."""
    words = []
    while field.words != NULL and field.words[len(words)] != NULL:
        words.append(field.words[len(words)].decode())
    return tuple(words)


cdef int64_t _word(const img_field *field, object value) except -1:
    words = _words(field)
    if value not in words:
        raise ValueError(f"must be one of {', '.join(words)}, not {value!r}")
    return words.index(value)


def op_table():
    """Return what ImageProgram takes: {name: (form, {field: (low, high) or its words})}; what may draw has an id, too."""
    cdef const img_field *field
    table, i = {}, 0
    while img_op_kind_at(i) != NULL:
        kind = img_op_kind_at(i)
        field = kind.fields
        fields = {}
        while field.name != NULL:
            words = _words(field)
            fields[field.name.decode()] = words if words else (field.low, field.high)
            field += 1
        if kind.draws:
            fields["id"] = (0.0, 2.0**64 - 1)
        forms = {IMG_AXIS: "axis", IMG_POINT: "point", IMG_STATISTIC: "statistic", IMG_PICTURE: "picture"}
        table[kind.name.decode()] = (forms[kind.form], fields)
        i += 1
    return table
