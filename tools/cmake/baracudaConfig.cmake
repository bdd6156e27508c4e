# find_package(baracuda CONFIG [COMPONENTS cpu cuda]): targets of the libraries that `make install` put below this prefix.
#
#   baracuda::cpu, baracuda::cuda   a library, if it is installed; a component requires it
#   baracuda::kernels               the library that `make install BACKEND=cpu|cuda` chose
#   baracuda::headers               the C and C++ headers, without a library
#
# All paths are relative to this file, so the tree may be moved.
get_filename_component(_baracuda_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET baracuda::headers)
    add_library(baracuda::headers INTERFACE IMPORTED)
    set_target_properties(baracuda::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_baracuda_prefix}/include")
endif()

set(_baracuda_library libbaracuda_kernels.so)
foreach(_baracuda_target cpu cuda kernels)
    if(_baracuda_target STREQUAL "kernels")
        set(_baracuda_file "${_baracuda_prefix}/lib/${_baracuda_library}")
    else()
        set(_baracuda_file "${_baracuda_prefix}/lib/baracuda/${_baracuda_target}/${_baracuda_library}")
    endif()
    if(EXISTS "${_baracuda_file}")
        set(baracuda_${_baracuda_target}_FOUND TRUE)
        if(NOT TARGET baracuda::${_baracuda_target})
            add_library(baracuda::${_baracuda_target} SHARED IMPORTED)
            set_target_properties(baracuda::${_baracuda_target} PROPERTIES
                IMPORTED_LOCATION "${_baracuda_file}"
                INTERFACE_LINK_LIBRARIES baracuda::headers)
        endif()
    else()
        set(baracuda_${_baracuda_target}_FOUND FALSE)
    endif()
endforeach()

foreach(_baracuda_target IN LISTS baracuda_FIND_COMPONENTS)
    if(baracuda_FIND_REQUIRED_${_baracuda_target} AND NOT baracuda_${_baracuda_target}_FOUND)
        set(baracuda_FOUND FALSE)
        set(baracuda_NOT_FOUND_MESSAGE "baracuda's ${_baracuda_target} library is not installed below ${_baracuda_prefix}")
    endif()
endforeach()

unset(_baracuda_file)
unset(_baracuda_library)
unset(_baracuda_target)
unset(_baracuda_prefix)
