# baracuda: `make demo` and `make test` need python3, a C++ compiler and make; `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
CXX ?= g++
CC ?= gcc
CUDA_ARCHS ?= 80 86 89 90
PREFIX ?= /usr/local
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' baracuda/__init__.py)
SOVERSION := $(shell sed -n 's/^.define BARACUDA_ABI_VERSION //p' native/core/prologue.h)
SONAME := libbaracuda_kernels.so.$(SOVERSION)
CCACHE := $(shell command -v ccache 2>/dev/null)
TABLES := $(wildcard native/*/*.abi)
GENERATORS := tools/gen_abi.py tools/abi_table.py native/core/prologue.h $(TABLES)
HEADER := include/baracuda_kernels.h
GEN := $(BUILD)/gen

# Python of the project: the environment's, or $(PYTHON) as it is with `VENV=`.
ifeq ($(strip $(VENV)),)
PY := $(PYTHON)
VENV_READY :=
else
PY := $(VENV)/bin/python
VENV_READY := $(VENV)/.ready
endif

# nvcc from PATH, else from the wheels in the environment (`make nvcc` puts them there), else none.
NVCC := $(shell command -v nvcc 2>/dev/null)
ifeq ($(NVCC),)
NVCC_ROOT := $(firstword $(wildcard $(VENV)/lib/python3*/site-packages/nvidia/cu13))
NVCC := $(wildcard $(NVCC_ROOT)/bin/nvcc)
NVCC_LINK := $(if $(NVCC),-L$(NVCC_ROOT)/lib)
endif

WARNINGS := -Wall -Wextra
INCLUDES := -Iinclude -Inative -I$(GEN)
CXXFLAGS ?= -O3 -g0
CPU_FLAGS := -std=c++17 -fPIC -fopenmp -fvisibility=hidden -fno-math-errno -fno-trapping-math -ffp-contract=off $(WARNINGS) -Wno-psabi $(INCLUDES)
GENCODE := $(foreach a,$(CUDA_ARCHS),-gencode=arch=compute_$(a),code=sm_$(a)) \
           -gencode=arch=compute_$(lastword $(CUDA_ARCHS)),code=compute_$(lastword $(CUDA_ARCHS))
CUDA_FLAGS := -std=c++17 -O3 --threads 1 -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Wno-psabi --Werror=all-warnings \
              -Xfatbin=-compress-all --cudart=static $(INCLUDES)
LINK_FLAGS := -shared -Wl,-soname,$(SONAME) -Wl,--version-script=native/version_script.map -Wl,--no-undefined

comma := ,
quote_list = $(subst $(eval) ,$(comma) ,$(patsubst %,\"sm_%\",$(1)))
INFO = -DBK_VERSION='"$(VERSION)"' -DBK_COMMIT='"$(shell cat $(BUILD)/commit.txt)"'

.DEFAULT_GOAL := all
.PHONY: all cpu cuda gen abi check-abi demo test bench san lint format install wheel clean help nvcc venv FORCE
.SECONDARY:
.DELETE_ON_ERROR:

all: cpu $(if $(NVCC),cuda,no-cuda) ## both libraries; the CPU library alone without a CUDA compiler
.PHONY: no-cuda
no-cuda:
	@echo "No nvcc on PATH nor in $(VENV): built the CPU library only. 'make nvcc' installs one."

# --- Generated -------------------------------------------------------------------------------------------------------

# The stamp lets make decide whether to run the generator; unchanged files keep their time.
$(GEN)/.stamp: $(GENERATORS) $(wildcard native/*/*_cpu.h)
	@mkdir -p $(GEN)
	$(PYTHON) tools/gen_abi.py glue $(GEN)
	@touch $@

gen: $(GEN)/.stamp baracuda/_oplist.py baracuda/_ffi.py

baracuda/_oplist.py: $(GENERATORS)
	$(PYTHON) tools/gen_abi.py oplist $@ && touch $@

baracuda/_ffi.py: $(HEADER) tools/gen_ffi.py $(VENV_READY)
	$(PY) tools/gen_ffi.py $@ && touch $@

abi: ## rewrite the public header from the op tables
	$(PYTHON) tools/gen_abi.py header

check-abi: cpu $(if $(NVCC),cuda) ## header = op tables = symbols of the libraries
	$(PYTHON) tools/gen_abi.py header --check
	$(PYTHON) tools/check_abi.py $(HEADER) $(wildcard $(BUILD)/*/libbaracuda_kernels.so)

$(BUILD)/commit.txt: FORCE
	@mkdir -p $(BUILD)
	@git describe --always --dirty --abbrev=12 2>/dev/null > $@.new || echo unknown > $@.new
	@cmp -s $@ $@.new && rm $@.new || mv $@.new $@

# --- Libraries -------------------------------------------------------------------------------------------------------

# The glue's file names are known only after it is written: hence the second make.
cpu: $(GEN)/.stamp $(BUILD)/commit.txt ## the CPU library
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/cpu/libbaracuda_kernels.so INNER=1

cuda: $(GEN)/.stamp $(BUILD)/commit.txt ## the CUDA library; CUDA_ARCHS="80 90" chooses the chips
	@test -n "$(NVCC)" || { echo "make cuda: no nvcc on PATH nor in $(VENV); 'make nvcc' installs one" >&2; exit 1; }
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/cuda/libbaracuda_kernels.so INNER=1

GLUE := $(wildcard $(GEN)/*.cu)
NATIVE_CU := $(wildcard native/*/*.cu)
CPU_OBJECTS := $(GLUE:$(GEN)/%.cu=$(BUILD)/cpu/obj/gen/%.o) $(BUILD)/cpu/obj/core/library.o
CUDA_OBJECTS := $(GLUE:$(GEN)/%.cu=$(BUILD)/cuda/obj/gen/%.o) $(NATIVE_CU:native/%.cu=$(BUILD)/cuda/obj/%.o) \
                $(BUILD)/cuda/obj/core/library.o

$(BUILD)/cpu/obj/gen/%.o: $(GEN)/%.cu Makefile
	@mkdir -p $(@D)
	$(CCACHE) $(CXX) $(CPU_FLAGS) $(CXXFLAGS) -MMD -MP -x c++ -c $< -o $@

$(BUILD)/cpu/obj/core/library.o: native/core/library.cpp $(BUILD)/commit.txt $(GEN)/.stamp Makefile
	@mkdir -p $(@D)
	$(CXX) $(CPU_FLAGS) $(CXXFLAGS) $(INFO) -DBK_BACKEND='"cpu"' -DBK_ARCH_LIST= -MMD -MP -c $< -o $@

$(BUILD)/cpu/libbaracuda_kernels.so: $(CPU_OBJECTS) native/version_script.map
	$(CXX) $(LINK_FLAGS) -fopenmp $(SAN_LINK) -o $@ $(CPU_OBJECTS)

$(BUILD)/cuda/archs.txt: FORCE
	@mkdir -p $(@D)
	@echo "$(CUDA_ARCHS)" | cmp -s - $@ || echo "$(CUDA_ARCHS)" > $@

$(BUILD)/cuda/obj/gen/%.o: $(GEN)/%.cu Makefile $(BUILD)/cuda/archs.txt
	@mkdir -p $(@D)
	$(CCACHE) $(NVCC) $(CUDA_FLAGS) $(GENCODE) -MMD -MP -c $< -o $@

$(BUILD)/cuda/obj/%.o: native/%.cu Makefile $(BUILD)/cuda/archs.txt
	@mkdir -p $(@D)
	$(CCACHE) $(NVCC) $(CUDA_FLAGS) $(GENCODE) -MMD -MP -c $< -o $@

$(BUILD)/cuda/obj/core/library.o: native/core/library.cpp $(BUILD)/commit.txt $(GEN)/.stamp Makefile $(BUILD)/cuda/archs.txt
	@mkdir -p $(@D)
	$(NVCC) $(CUDA_FLAGS) -x cu $(INFO) -DBK_BACKEND='"cuda"' -DBK_ARCH_LIST='$(call quote_list,$(CUDA_ARCHS))' -MMD -MP -c $< -o $@

$(BUILD)/cuda/libbaracuda_kernels.so: $(CUDA_OBJECTS) native/version_script.map
	$(NVCC) $(NVCC_LINK) --cudart=static -Xcompiler=-fPIC $(foreach f,$(LINK_FLAGS),$(if $(filter -shared,$f),-shared,-Xlinker $(subst -Wl$(comma),,$f))) -o $@ $(CUDA_OBJECTS)

-include $(CPU_OBJECTS:.o=.d) $(CUDA_OBJECTS:.o=.d)
