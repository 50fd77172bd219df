"""All wrong calls in one table."""

from errors import (
    algorithm_cases,
    array_cases,
    attribute_cases,
    channel_cases,
    epilogue_cases,
    function_cases,
    limit_cases,
    out_cases,
    request_cases,
    shape_cases,
    xml_cases,
)

CASES = [
    *attribute_cases.CASES,
    *shape_cases.CASES,
    *channel_cases.CASES,
    *request_cases.CASES,
    *function_cases.CASES,
    *array_cases.CASES,
    *out_cases.CASES,
    *limit_cases.CASES,
    *xml_cases.CASES,
    *algorithm_cases.CASES,
    *epilogue_cases.CASES,
]
