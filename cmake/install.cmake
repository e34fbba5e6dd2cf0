# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where: libraries, the command, headers, pkg-config files and the CMake package. Nothing of it
# depends on the prefix, so the installed tree can be moved.
include(CMakePackageConfigHelpers)

set(gsc_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/gradscaler)
set(gsc_core_headers gradscaler status runtime dtype optimizer scaler gradients version)
set(gsc_train_headers train tensor tape ops autocast nn optim random data state_json safetensors
                      checkpoint)

file(RELATIVE_PATH gsc_prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
if(NOT DLPACK_INCLUDE_DIR IN_LIST CMAKE_C_IMPLICIT_INCLUDE_DIRECTORIES)
  set(gsc_dlpack_cflags " -I${DLPACK_INCLUDE_DIR}")
endif()

function(gsc_install_headers)
  foreach(header IN LISTS ARGN)
    install(FILES ${PROJECT_SOURCE_DIR}/include/gradscaler/${header}.h
            DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/gradscaler)
  endforeach()
endfunction()

function(gsc_install_pkgconfig name)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# NAME.pc for the library of an MPI, with what the MPI itself needs.
function(gsc_mpi_pkgconfig name mpi)
  set(gsc_mpi ${mpi})
  list(TRANSFORM gsc_${mpi}_includes PREPEND -I OUTPUT_VARIABLE includes)
  list(TRANSFORM gsc_${mpi}_folders PREPEND -L OUTPUT_VARIABLE folders)
  list(TRANSFORM gsc_${mpi}_libraries PREPEND -l OUTPUT_VARIABLE libraries)
  list(JOIN includes " " gsc_mpi_cflags)
  list(JOIN folders " " folders)
  list(JOIN libraries " " libraries)
  set(gsc_mpi_libs "${folders} ${libraries}")
  set(gsc_pc_name ${name})
  configure_file(cmake/gradscaler-mpi.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

gsc_install_headers(${gsc_core_headers})
gsc_install_pkgconfig(gradscaler)
install(TARGETS gradscaler EXPORT gradscaler-targets)
if(GSC_TRAIN)
  gsc_install_headers(${gsc_train_headers})
  gsc_install_pkgconfig(gradscaler-train)
  install(TARGETS gradscaler-train EXPORT gradscaler-targets)
  install(FILES cmake/dependencies.cmake DESTINATION ${gsc_package_dir} RENAME gradscaler-dependencies.cmake)
endif()
if(GSC_CUDA)
  gsc_install_headers(cuda)
  gsc_install_pkgconfig(gradscaler-cuda)
  install(TARGETS gradscaler-cuda EXPORT gradscaler-targets)
endif()
if(GSC_MPI)
  gsc_install_headers(mpi)
  foreach(mpi IN LISTS gsc_mpis)
    install(TARGETS gradscaler-mpi-${mpi} EXPORT gradscaler-targets)
    gsc_mpi_pkgconfig(gradscaler-mpi-${mpi} ${mpi})
  endforeach()
  list(GET gsc_mpis 0 mpi)
  install(TARGETS gradscaler-mpi EXPORT gradscaler-targets)
  gsc_mpi_pkgconfig(gradscaler-mpi ${mpi})
endif()
if(TARGET gradscaler-cli)
  install(TARGETS gradscaler-cli)
endif()

install(EXPORT gradscaler-targets NAMESPACE gradscaler:: DESTINATION ${gsc_package_dir})
configure_package_config_file(cmake/gradscaler-config.cmake.in ${PROJECT_BINARY_DIR}/gradscaler-config.cmake
                              INSTALL_DESTINATION ${gsc_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/gradscaler-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/gradscaler-config.cmake ${PROJECT_BINARY_DIR}/gradscaler-config-version.cmake
        DESTINATION ${gsc_package_dir})
