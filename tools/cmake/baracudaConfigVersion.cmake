# Versions that @VERSION@ is compatible with: up to it with the same major version, and before 1.0 with the same minor version
# too, since a minor version may then break callers.
set(PACKAGE_VERSION "@VERSION@")

string(REGEX MATCH "^0\\.[0-9]+|^[0-9]+" _baracuda_own "${PACKAGE_VERSION}")
string(REGEX MATCH "^0\\.[0-9]+|^[0-9]+" _baracuda_asked "${PACKAGE_FIND_VERSION}.0")
set(PACKAGE_VERSION_COMPATIBLE FALSE)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION AND _baracuda_own STREQUAL _baracuda_asked)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
unset(_baracuda_own)
unset(_baracuda_asked)
