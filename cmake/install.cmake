# What `cmake --install` puts where: the libraries, the public headers, the commands, the digits data set, and what
# other projects need to find them: a CMake package (tutti::tutti, tutti::ddp) and pkg-config files (tutti, tutti_ddp).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(tutti tutti_ddp PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
)
# Commands of an installation with shared libraries find them wherever the whole was moved to.
file(RELATIVE_PATH from_bin_to_lib /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
set_target_properties(tutti_command all_reduce_perf PROPERTIES INSTALL_RPATH "$ORIGIN/${from_bin_to_lib}")
set_target_properties(tutti_ddp PROPERTIES INSTALL_RPATH "$ORIGIN")

install(TARGETS tutti tutti_ddp EXPORT tutti_targets)
install(DIRECTORY include/tutti DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
# The drop-in for NCCL: a library and headers for programs that know nothing of the rest.
install(TARGETS tutti_nccl)
install(FILES include/nccl.h include/nccl_device.h include/nccl_later.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A static library leaves it to its users to link what it needs itself.
get_target_property(tutti_type tutti TYPE)
if(tutti_type STREQUAL "STATIC_LIBRARY")
  set(TUTTI_IS_STATIC ON)
  set(TUTTI_PC_REQUIRES "hwloc libsodium")
  set(TUTTI_PC_LIBS "-lstdc++ -pthread")
else()
  set(TUTTI_IS_STATIC OFF)
  set(TUTTI_PC_REQUIRES "")
  set(TUTTI_PC_LIBS "")
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tutti)
configure_package_config_file(cmake/tutti-config.cmake.in ${PROJECT_BINARY_DIR}/tutti-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/tutti-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT tutti_targets NAMESPACE tutti:: FILE tutti-targets.cmake DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/tutti-config.cmake ${PROJECT_BINARY_DIR}/tutti-config-version.cmake
        DESTINATION ${package_dir})

file(RELATIVE_PATH TUTTI_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(library tutti tutti_ddp)
  configure_file(cmake/${library}.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
