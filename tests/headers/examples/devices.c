#include "common.h"

int main(void)
{
#include "example.inc"
    return 0;
}
