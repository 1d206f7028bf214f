/* The roles of special tokens, which have a meaning for the model. */
#ifndef VP_TEXT_SPECIAL_H
#define VP_TEXT_SPECIAL_H

enum vp_special {
    VP_SPECIAL_PAD,
    VP_SPECIAL_UNKNOWN,
    VP_SPECIAL_CLS,
    VP_SPECIAL_SEP,
    VP_SPECIAL_MASK,
    VP_SPECIAL_BEGIN,
    VP_SPECIAL_END,
    VP_SPECIAL_COUNT,
};

#endif
