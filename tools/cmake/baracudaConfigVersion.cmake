# Which versions asked for by find_package the installed @VERSION@ serves: any up to it of its own first number, and before
# 1.0 of its first two, as a change of the second may then break a caller.
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
