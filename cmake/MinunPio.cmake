# SPDX-License-Identifier: Apache-2.0
# minun_add_models(<target> MODELS <model.yaml>... [BOARD <name or manifest.json>]
#                  [CORE <core>] [RAM <bytes>] [FLASH <bytes>])
#
# Generates the C++ of the models at configure time, through model.lock.json (with a valid one nothing is searched
# and no numpy is needed), compiles it with <target> and puts its folder and minun's headers on the include path.
# Configures again when a model.yaml, its lock file or a file that it names changes. Without BOARD: the host. An AVR
# executable is checked after linking; call this in the folder that adds it.
# MINUN_PYTHON may name the Python that has minun_pio.

function(minun_add_models target)
  get_filename_component(MINUN_ROOT "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.." ABSOLUTE)
  set(home "${MINUN_ROOT}")
  if(NOT IS_DIRECTORY "${home}/minun_pio")  # <packages>/minun_pio/library of an installed package
    get_filename_component(home "${MINUN_ROOT}/../.." ABSOLUTE)
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "BOARD;CORE;RAM;FLASH" "MODELS")
  if(NOT arg_MODELS OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "minun_add_models(${target}): expected MODELS <model.yaml>..., found '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT MINUN_PYTHON)
    find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
    set(MINUN_PYTHON "${Python3_EXECUTABLE}" CACHE FILEPATH "The Python that runs minun_pio")
  endif()

  set(models "")
  foreach(model IN LISTS arg_MODELS)
    get_filename_component(path "${model}" ABSOLUTE)
    list(APPEND models "${path}")
  endforeach()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/minun_models/${target}")
  set(options --out "${folder}")
  foreach(option BOARD CORE RAM FLASH)
    if(DEFINED arg_${option})
      string(TOLOWER "${option}" name)
      list(APPEND options "--${name}" "${arg_${option}}")
    endif()
  endforeach()

  execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${home}" "${MINUN_PYTHON}" -m minun_pio build ${models}
            ${options} --json
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    OUTPUT_VARIABLE output
    ERROR_VARIABLE errors ECHO_ERROR_VARIABLE
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    string(STRIP "${errors}" errors)
    message(FATAL_ERROR "${errors}")
  endif()

  foreach(kind lines outputs inputs)
    string(JSON count LENGTH "${output}" ${kind})
    set(${kind} "")
    if(count GREATER 0)
      math(EXPR last "${count} - 1")
      foreach(k RANGE ${last})
        string(JSON item GET "${output}" ${kind} ${k})
        list(APPEND ${kind} "${item}")
      endforeach()
    endif()
  endforeach()
  foreach(line IN LISTS lines)
    message(STATUS "minun: ${line}")
  endforeach()
  set(sources ${outputs})
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  file(GLOB runtime CONFIGURE_DEPENDS "${MINUN_ROOT}/src/*.cpp")
  target_sources(${target} PRIVATE ${sources} ${runtime})
  string(JSON board GET "${output}" target)
  if(board MATCHES "^avr/")
    # Not SYSTEM: avr-g++ takes such headers for C. What lpm does not reach is known after linking only.
    target_include_directories(${target} PRIVATE "${folder}" "${MINUN_ROOT}/include")
    get_target_property(kind ${target} TYPE)
    if(kind STREQUAL "EXECUTABLE")
      add_custom_command(TARGET ${target} POST_BUILD VERBATIM
        COMMAND "${CMAKE_COMMAND}" -E env "PYTHONPATH=${home}" "${MINUN_PYTHON}" -m minun_pio check
                "$<TARGET_FILE:${target}>" --models "${folder}")
    endif()
  else()
    target_include_directories(${target} SYSTEM PRIVATE "${folder}" "${MINUN_ROOT}/include")
  endif()
  target_compile_features(${target} PRIVATE cxx_std_11)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${inputs})
endfunction()
